"""One error class per exit code; messages say where, what, expected, found, and what to try."""

from __future__ import annotations


class PackcliError(Exception):
    """Base of everything that packcli raises on purpose.

    Attributes:
        exit_code: the status with which the command line ends.
    """

    exit_code: int = 70


class ContractBrokenError(PackcliError):
    """Data breaks the contract: the output of a stage would not pass `packcli verify`."""

    exit_code = 1


class UsageError(PackcliError):
    """The call is wrong: an option, or an output folder that must not be touched."""

    exit_code = 2


class InputError(PackcliError):
    """An input, a model directory or a manifest cannot be used."""

    exit_code = 3


class EnvironmentLacksError(PackcliError):
    """What was asked for is not here: a GPU, a kernel, an optional package."""

    exit_code = 4


class IncompleteError(PackcliError):
    """The work stopped half-way (disk full, a worker died) and can be resumed."""

    exit_code = 5


class Rejection(Exception):  # noqa: N818 - a rejection is an outcome of a record, not an error of the program
    """One record cannot become a sample; the run goes on and counts it.

    Attributes:
        code: the stable rejection code, one of `contract.codes.REJECTIONS`.
        message: what is wrong and what to do, in one line.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Rejection], tuple[str, str]]:
        """Let it cross from a worker process."""
        return type(self), (self.code, self.message)
