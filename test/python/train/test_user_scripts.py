# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scripts like those of users train as in eager mode, or are refused in one line that names the remedy."""

import re
from functools import partial

import pytest
import torch
from eager_trainer import EagerTrainer
from repro_mlir import ReproError, Trainer

pytest.importorskip("torch_mlir")

from user_scripts import comparison, generative, objectives, optimization, reinforcement, structures
from user_scripts.tiny import Script, scripts_of

SCRIPTS = [
    script
    for module in (comparison, generative, objectives, optimization, reinforcement, structures)
    for script in scripts_of(module)
]
REFUSED = {
    "margin_loss_with_weights": "the loss function's: expected one module that contains both and returns the loss",
    "lookahead": "pass that Adam to Trainer and do the rest between steps",
    "sharpness_aware_minimization": "pass that SGD to Trainer and do the rest between steps",
    "two_optimizers_in_one": "or write one class whose step does both",
    "quasi_newton": "compile the loss with torch.compile(loss, backend=repro_mlir.backend())",
    "masters_outside_of_the_model": "a model in f32 and autocast=",
}
TRAINED = (
    *("momentum_contrast_with_a_queue", "triplet_loss", "distillation", "variational_autoencoder", "diffusion"),
    *("wasserstein_gan_with_gradient_penalty", "focal_loss", "low_rank_adaptation", "quantization_aware_training"),
    *("freezing_midway", "averaged_weights", "one_cycle", "gradients_of_the_step", "proximal_policy_optimization"),
    *("character_model_that_carries_its_state", "mixture_of_experts"),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.diagonal(script=(*REFUSED, *TRAINED))
def test_trains_as_eager_mode_or_is_refused(script: Script) -> None:
    make = partial(Trainer, target="reference")
    expected = REFUSED.get(script.__name__)
    if expected is not None:
        with pytest.raises(ReproError, match=re.escape(expected)) as found:
            script(make)
        assert "\n" not in str(found.value)
        return
    values, models = script(make)
    wanted, eager = script(EagerTrainer)
    assert values == pytest.approx(wanted, rel=2e-4, abs=2e-4)
    for one, other in zip(models, eager, strict=True):
        torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=2e-4, atol=2e-4)


def test_most_are_right() -> None:
    names = {script.__name__ for script in SCRIPTS}
    assert names >= {*REFUSED, *TRAINED}
    assert len(names) == len(SCRIPTS) >= 40
    assert len(SCRIPTS) - len(REFUSED) >= 30
