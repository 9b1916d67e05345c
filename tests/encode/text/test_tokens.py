import pytest

from packcli.encode.text.tokens import read_vocabulary
from tests.encode.conftest import write_model


@pytest.fixture
def vocabulary(tmp_path):
    return read_vocabulary(write_model(tmp_path))


def test_pieces_of_many_cuts_are_those_of_each_in_turn(vocabulary):
    texts = ["", "<|im_end|>", "Hi<|im_start|>user\n", "no token", "<|im_end|><|im_end|>a\n\n"]
    cuts = [vocabulary.cut(text) for text in texts]
    together = vocabulary.encode_pieces(cuts)
    assert [len(cut) for cut in cuts] == [1, 3, 3, 1, 5]
    expected = [
        [vocabulary.ids[piece]] if place % 2 else vocabulary.backend.encode_with_ends(piece)[0]
        for cut in cuts
        for place, piece in enumerate(cut)
    ]
    assert [ids.tolist() for ids in together.split()] == expected
    assert together.ids.size == sum(map(len, expected)) > 10


def test_white_space_may_cling_to_an_added_token(vocabulary):
    token = vocabulary.ids["<|im_end|>"]
    found = vocabulary.encode_pieces([["a", " <|im_end|>\n", ""]]).split()
    assert [ids.tolist() for ids in found][1:] == [[token], []]
