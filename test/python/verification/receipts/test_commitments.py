# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Merkle trees (C1), (C2) and commitments (C3) to (C5), (C7), compared with hashes computed by hand."""

import struct
from dataclasses import replace

import blake3
import pytest
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.verification import merkle
from repro_mlir.verification.receipts.commitments import Commitment, first_link, next_link
from repro_mlir.verification.receipts.form import Signature


def digest(*parts: bytes) -> bytes:
    return blake3.blake3(b"".join(parts)).digest()


def node(left: bytes, right: bytes) -> bytes:
    return digest(b"repro-node-v1\0\0\0", left, right)


def top(count: int, node: bytes) -> bytes:
    return digest(b"repro-root-v1\0\0\0", struct.pack("<Q", count), node)


LEAVES = [merkle.leaf(f"thing:{i}", bytes([i]) * 32) for i in range(40)]


def test_C1_leaf() -> None:
    expected = digest(b"repro-leaf-v1\0\0\0", struct.pack("<I", 3), b"abc", bytes(32))
    assert merkle.leaf("abc", bytes(32)) == expected


def test_C2_small_trees() -> None:
    a, b, c, d, e = LEAVES[:5]
    assert merkle.root([a]) == top(1, a)
    assert merkle.root([a, b]) == top(2, node(a, b))
    assert merkle.root([a, b, c]) == top(3, node(node(a, b), c))
    assert merkle.root([a, b, c, d, e]) == top(5, node(node(node(a, b), node(c, d)), e))
    with pytest.raises(ValueError, match="at least one"):
        merkle.root([])


def test_C2_every_leaf_of_every_size_has_a_proof() -> None:
    for count in range(1, len(LEAVES) + 1):
        leaves = LEAVES[:count]
        root = merkle.root(leaves)
        for index in range(count):
            path = merkle.prove(leaves, index)
            assert len(path) <= (count - 1).bit_length()
            assert merkle.proves(path, leaves[index], index, count, root)


def test_C2_nothing_else_has_that_proof() -> None:
    for count in (1, 2, 3, 7, 8, 21):
        leaves = LEAVES[:count]
        root = merkle.root(leaves)
        for index in range(count):
            path = merkle.prove(leaves, index)
            leaf = leaves[index]
            assert not merkle.proves(path, LEAVES[-1], index, count, root)
            assert not merkle.proves(path, leaf, index, count, LEAVES[0])
            assert not merkle.proves((*path, leaf), leaf, index, count, root)
            assert not path or not merkle.proves(path[1:], leaf, index, count, root)
            for other in range(-1, count + 1):
                assert other == index or not merkle.proves(path, leaf, other, count, root)
            for other in range(count + 20):
                assert other == count or not merkle.proves(path, leaf, index, other, root)


def test_C2_a_node_is_not_a_leaf() -> None:
    a, b, c, d = LEAVES[:4]
    assert merkle.root([a, b, c, d]) != merkle.root([node(a, b), node(c, d)])


COMMITMENT = Commitment(5, (b"\1" * 32, b"\2" * 32), (b"\3" * 32,), (b"\4" * 32,))


def test_C3_root_of_a_step() -> None:
    cursor = digest(b"repro-cursor-v1\0", struct.pack("<Q", 5))
    names = ("state:0", "state:1", "input:0", "output:0", "cursor")
    digests = (*(bytes([i]) * 32 for i in range(1, 5)), cursor)
    assert COMMITMENT.labelled() == list(zip(names, digests, strict=True))
    assert COMMITMENT.root == merkle.root([merkle.leaf(*pair) for pair in zip(names, digests, strict=True)])


def test_C7_root_of_a_step_of_version_2() -> None:
    made = replace(COMMITMENT, steps=4, program=b"\5" * 32, signature=b"\6" * 32)
    steps = digest(b"repro-steps-v1\0\0", struct.pack("<Q", 4))
    behind = [("steps", steps), ("program", b"\5" * 32), ("signature", b"\6" * 32)]
    assert made.labelled() == [*COMMITMENT.labelled(), *behind]


def test_C8_leaves_of_microbatches() -> None:
    made = replace(COMMITMENT, microbatches=(b"\7" * 32, b"\10" * 32))
    assert made.labelled() == [*COMMITMENT.labelled(), ("microbatch:0", b"\7" * 32), ("microbatch:1", b"\10" * 32)]


def test_C7_hash_of_a_signature() -> None:
    weight, batch, loss = (TensorType(name, "f32", ()) for name in ("weight", "batch", "loss"))
    signature = Signature((weight,), (batch,), (loss,), 0)
    names = [b'{"element":"f32","name":"%s","shape":[]}' % name for name in (b"batch", b"loss")]
    text = b'{"inputs":[%s],"num_hyper_parameters":0,"outputs":[%s]}' % (*names,)
    assert signature.digest == digest(b"repro-signature\0", text)
    assert replace(signature, state=()).digest == signature.digest
    changes = {"inputs": (weight,)}, {"outputs": ()}, {"num_hyper_parameters": 1}
    others = [replace(signature, **change) for change in changes]
    assert len({signature.digest, *(other.digest for other in others)}) == 4


def test_C3_everything_is_in_the_root() -> None:
    others = [
        replace(COMMITMENT, cursor=6),
        replace(COMMITMENT, state=COMMITMENT.state[::-1]),
        replace(COMMITMENT, state=COMMITMENT.state[:1], inputs=(COMMITMENT.state[1], *COMMITMENT.inputs)),
        replace(COMMITMENT, inputs=()),
        replace(COMMITMENT, outputs=COMMITMENT.inputs),
    ]
    assert len({COMMITMENT.root, *(other.root for other in others)}) == len(others) + 1


def test_C4_C5_chain() -> None:
    start = first_link(b"{}")
    assert start == digest(b"repro-header-v1\0", b"{}")
    link = next_link(start, 1, COMMITMENT.root)
    assert link == digest(b"repro-chain-v1\0\0", start, struct.pack("<Q", 1), COMMITMENT.root)
    assert len({link, next_link(start, 2, COMMITMENT.root), next_link(link, 1, COMMITMENT.root)}) == 3


def test_C7_the_tree_of_the_initial_state_has_no_leaf_of_steps() -> None:
    state = (bytes(32), bytes([1]) * 32)
    assert [label for label, _ in Commitment(0, state).labelled()] == ["state:0", "state:1", "cursor"]
    assert [label for label, _ in Commitment(0, state, steps=3).labelled()][-2:] == ["cursor", "steps"]
