# Names without their types: to read all of transformers takes a type checker half a minute.
from typing import Any

def __getattr__(name: str) -> Any: ...  # noqa: ANN401 - any name of the package
