import re
import subprocess
import sys
from pathlib import Path

import pytest

import posemill
from posemill import errors
from posemill.errors import MissingExtraError, naming_the_extra

# As on a machine that has no torch and no server.
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "uvicorn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from posemill.commands.line import main
"""
SERVE = "this needs 'uvicorn', which is not installed; run: pip install 'posemill[web]'"
SENTENCE = "training needs 'torch'; run: pip install 'posemill[train]'"


def error_classes():
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


def test_the_drawn_tree_names_every_error_and_each_has_an_exit_code_and_a_meaning():
    drawn = set(re.findall(r"\b(\w+Error)\b", (errors.__doc__ or "").split("\n\n")[1]))
    assert drawn == set(error_classes())
    for value in error_classes().values():
        assert issubclass(value, errors.PosemillError)
        assert value.exit_code in (1, 2)
        assert value.__doc__


def run_without_torch(code):
    sources = str(Path(posemill.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code], env={"PYTHONPATH": sources}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["train"], ["train", "--show-config"], ["evaluate", "run"], ["predict", "run", "data.npz"],
     ["serve"]],
    ids=" ".join,
)  # fmt: skip
def test_a_command_without_torch_is_one_sentence_with_the_pip_line(arguments):
    done = run_without_torch(f"main({arguments!r})")
    assert done.returncode == 2
    assert done.stderr == f"posemill: {SERVE if arguments == ['serve'] else SENTENCE}\n"
    assert not done.stdout


@pytest.mark.parametrize(
    "code",
    ["posemill.KeypointDataset('data.npz')", "posemill.train({})", "posemill.load_model('run')"],
)
def test_python_users_get_the_same_sentence(code):
    done = run_without_torch(
        f"import posemill\nfrom posemill.errors import MissingExtraError\n"
        f"try: {code}\nexcept MissingExtraError as error: print(error)"
    )
    assert done.stdout == f"{SENTENCE}\n", done.stderr


def test_another_missing_module_is_not_blamed_on_the_extra():
    with pytest.raises(ModuleNotFoundError), naming_the_extra():
        raise ModuleNotFoundError(name="elsewhere")
    with pytest.raises(MissingExtraError, match=r"training needs 'torch\.nn'"), naming_the_extra():
        raise ModuleNotFoundError(name="torch.nn")
