# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state of a generator: seed, step, site, forks (R4)."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError, random
from repro_mlir.base.numerics.digest import numpy_blake3_of
from repro_mlir.random import Generator


def test_each_draw_takes_a_site_and_each_step_begins_at_site_0() -> None:
    generator = Generator(7)
    first = [random.rand(4, generator=generator) for _ in range(3)]
    assert generator.get_state() == {"seed": 7, "site": 3, "step": 0}
    generator.next_step()
    second = random.rand(4, generator=generator)
    assert generator.get_state() == {"seed": 7, "site": 1, "step": 1}
    assert len({each.tobytes() for each in [*first, second]}) == 4
    for site, each in enumerate(first):
        assert np.array_equal(random.rand(4, generator=Generator(7, site=site)), each)
    assert np.array_equal(random.rand(4, generator=Generator(7, step=1)), second)


def test_a_given_site_leaves_the_generator_as_it_is() -> None:
    generator = Generator(7, site=2)
    found = random.rand(4, generator=generator, site=9)
    assert generator.site == 2 and np.array_equal(found, random.rand(4, generator=Generator(7, site=9)))


def test_a_state_restores_the_following_draws() -> None:
    generator = Generator(2**64 - 1, step=5)
    random.rand(4, generator=generator)
    state = generator.get_state()
    wanted = random.randn(4, generator=generator)
    for restored in (
        Generator().set_state(json.loads(json.dumps(state))),
        pickle.loads(pickle.dumps(Generator().set_state(state))),
        copy.deepcopy(Generator().set_state(state)),
    ):
        assert np.array_equal(random.randn(4, generator=restored), wanted)
        assert restored.get_state() == generator.get_state()


def test_seeds_have_64_bits() -> None:
    assert Generator(-1).seed == Generator(2**64 - 1).seed == 2**64 - 1
    generator = Generator(3, step=4, site=5).manual_seed(np.int64(-2))
    assert generator.get_state() == {"seed": 2**64 - 2, "site": 0, "step": 0}
    assert repr(generator) == f"Generator(seed={2**64 - 2}, step=0, site=0)"


def test_threads_that_share_a_generator_draw_from_different_sites() -> None:
    generator, sites = Generator(1), []

    def interrupt(*_: Any) -> Any:
        # Lets another thread run before each line.
        time.sleep(0)
        return interrupt

    def draw() -> None:
        sys.settrace(interrupt)
        for _ in range(100):
            sites.append(generator.take().site)
        sys.settrace(None)

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(sites) == [*range(400)] and generator.site == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_threads_draw_can_draw() -> None:
    generator, is_done = Generator(1), threading.Event()

    def draw() -> None:
        while not is_done.is_set():
            generator.take()

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                generator.take()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_done.set()
        thread.join()


def test_a_step_that_is_assigned_begins_at_site_0() -> None:
    generator = Generator(3, site=8)
    generator.step = 6
    assert (generator.step, generator.site) == (6, 0)


@pytest.mark.parametrize(("name", "encoded"), [("lm.head", b"\1lm.head"), ("", b"\1"), (258, b"\0\2\1" + bytes(6))])
def test_R4_the_seed_of_a_fork(name: str | int, encoded: bytes) -> None:
    generator = Generator(-1, step=9, site=4)
    digest = numpy_blake3_of(b"repro-random-fork-v1\0" + b"\xff" * 8 + encoded)
    fork = generator.fork(name)
    assert fork.get_state() == {"seed": int.from_bytes(digest[:8], "little"), "site": 0, "step": 9}
    assert generator.get_state() == {"seed": 2**64 - 1, "site": 4, "step": 9}


def test_forks_have_seeds_of_their_own() -> None:
    generator = Generator(7)
    forks = [*generator.split(4), generator.fork("0"), generator.fork("a"), generator.fork("a").fork("a")]
    assert len({each.seed for each in [generator, *forks]}) == 8
    assert [each.seed for each in generator.split(4)] == [generator.fork(i).seed for i in range(4)]


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("expected a whole number of 64 bits as seed, got 1.5", lambda: Generator(1.5)),
        ("expected a step from 0 to 4294967295, got -1", lambda: Generator(0, step=-1)),
        ("expected a site from 0 to 4294967295, got True", lambda: Generator(0, site=True)),
        ("expected a step from 0 to 4294967295, got 4294967296", lambda: Generator(0, step=2**32 - 1).next_step()),
        ("as name of a fork, got -1", lambda: Generator().fork(-1)),
        ("as name of a fork, got 1.0", lambda: Generator().fork(1.0)),
        (r"generators from 0 to 2\^20, got -1", lambda: Generator().split(-1)),
        ("expected a state with the keys seed, site, step", lambda: Generator().set_state({"seed": 1})),
        ("expected a state with the keys seed, site, step", lambda: Generator().set_state(b"state")),
    ],
)
def test_wrong_arguments_are_one_error(message: str, call: Any) -> None:
    with pytest.raises(ReproError, match=message):
        call()


def test_a_wrong_state_changes_nothing() -> None:
    generator = Generator(1, step=2, site=3)
    for wrong in ({"seed": 1.5, "site": 0, "step": 0}, {"seed": 5, "site": -1, "step": 0}):
        with pytest.raises(ReproError):
            generator.set_state(wrong)
        assert generator.get_state() == {"seed": 1, "site": 3, "step": 2}


def test_the_last_site_of_a_step() -> None:
    generator = Generator(1, site=2**32 - 1)
    random.rand(1, generator=generator)
    with pytest.raises(ReproError, match="call next_step before the next draw"):
        random.rand(1, generator=Generator().set_state(generator.get_state()))
    generator.next_step()
    assert random.rand(1, generator=generator).size == 1
