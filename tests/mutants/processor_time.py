"""A plugin of pytest: the processor time of each test, with that of its children, in the report."""

import os

import pytest

_STARTED = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_STARTED] = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    yield
    spent = sum(os.times()[:4]) - item.stash.get(_STARTED, 0.0)
    item.user_properties.append(("processor_time", f"{spent:.3f}"))
