"""Short and old module names give the very modules, not copies of them; only old ones warn."""

import importlib
import sys
import warnings

import pytest

import pgmest as pg
from pgmest._base import renamed


@pytest.mark.parametrize(("short", "name"), renamed.SHORT.items())
def test_short_names_stay(short, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.import_module(short) is importlib.import_module(name)
    assert getattr(pg, short.removeprefix("pgmest.")) is sys.modules[name]


@pytest.mark.parametrize(("old", "name"), renamed.DEPRECATED.items())
def test_old_names_warn(old, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(old.rpartition(".")[0])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {name}"):
        assert importlib.import_module(old) is importlib.import_module(name)


def test_what_is_inside_a_renamed_package_is_not_loaded_a_second_time():
    with pytest.raises(ModuleNotFoundError, match=r"import pgmest\.data\.schema\.draft instead"):
        importlib.import_module("pgmest.schema.draft")
    assert callable(pg.schema.draft)


def test_names_that_do_not_exist_are_named_as_asked_for():
    with pytest.raises(ModuleNotFoundError, match="pgmest"):
        importlib.import_module("pgmest.schema.nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pg.nothing  # noqa: B018
