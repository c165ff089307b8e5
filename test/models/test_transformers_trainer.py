# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""With compiled steps, the Trainer of transformers computes the bits of our Trainer, and numbers close to those of the
original Trainer."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repro_mlir
import safetensors.torch
import torch
import transformers
from repro_mlir import ReproError
from repro_mlir.integrations.transformers import ReproTrainer
from repro_mlir.verification.receipts.receipt import Receipt
from zoo import CASES

STEPS = 4


def examples(name: str) -> list[dict[str, torch.Tensor]]:
    """Returns ten rows: five batches of two rows each."""
    batch = CASES[name].batch()
    rows = [{key: value[row] for key, value in batch.items()} for row in range(2)]
    return [{key: torch.roll(value, shift) for key, value in row.items()} for shift in range(5) for row in rows]


def arguments(folder: Path, **options: Any) -> transformers.TrainingArguments:
    defaults = dict(
        output_dir=str(folder), use_cpu=True, per_device_train_batch_size=2, per_device_eval_batch_size=2,
        max_steps=STEPS, logging_steps=1, save_strategy="no", learning_rate=1e-2, warmup_steps=2, max_grad_norm=0.5,
        disable_tqdm=True, report_to="none", train_sampling_strategy="sequential",
    )  # fmt: skip
    return transformers.TrainingArguments(**(defaults | options))


def state_of(model: torch.nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def logged(trainer: transformers.Trainer, key: str) -> list[float]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


@pytest.mark.parametrize("name", ["transformers/gpt2", "transformers/bert"])
def test_a_run_is_that_of_both_trainers(name: str, tmp_path: Path) -> None:
    """The runs have a learning rate schedule, gradient clipping and an evaluation at the end."""
    data = examples(name)
    model = CASES[name].model()
    eager, by_hand = copy.deepcopy(model), copy.deepcopy(model)
    args = arguments(tmp_path, eval_strategy="steps", eval_steps=STEPS)
    ours = ReproTrainer(model=model, args=args, train_dataset=data, eval_dataset=data[:4])
    ours.train()
    theirs = transformers.Trainer(model=eager, args=args, train_dataset=data, eval_dataset=data[:4])
    theirs.train()
    for key in ("loss", "grad_norm", "learning_rate", "eval_loss"):
        assert len(logged(ours, key)) == (1 if key == "eval_loss" else STEPS)
        assert logged(ours, key) == pytest.approx(logged(theirs, key), rel=1e-3), key
    assert min(logged(ours, "grad_norm")) > args.max_grad_norm

    reference = transformers.Trainer(model=by_hand, args=args, train_dataset=data, eval_dataset=data)
    reference.create_optimizer_and_scheduler(STEPS)
    trainer = repro_mlir.Trainer(by_hand, None, reference.optimizer, clip_norm=args.max_grad_norm, seed=args.seed)
    losses = []
    for batch in list(reference.get_train_dataloader())[:STEPS]:
        count = reference._get_num_items_in_batch([batch], torch.device("cpu"))
        losses.append(trainer.step(dict(batch) | {"num_items_in_batch": count}))
        reference.lr_scheduler.step()
    assert logged(ours, "loss") == losses
    assert state_of(model) == state_of(by_hand)
    assert ours.compiled.state_hash() == trainer.state_hash()


def dropout_model() -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=1, n_head=4)
    return transformers.GPT2LMHeadModel(config)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    """A run with dropout and shuffled data is resumed from a checkpoint, in a new trainer whose model has other
    weights."""
    data = examples("transformers/gpt2")
    options = {"save_strategy": "steps", "save_steps": 3, "train_sampling_strategy": "random", "max_steps": 7}
    model = dropout_model()
    whole = ReproTrainer(model=model, args=arguments(tmp_path, **options), train_dataset=data)
    whole.train()
    resumed = dropout_model()
    torch.nn.init.zeros_(resumed.transformer.wte.weight)
    rest = ReproTrainer(
        model=resumed, args=arguments(tmp_path, **options), train_dataset=data, receipt=tmp_path / "receipt"
    )
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert state_of(resumed) == state_of(model)
    assert logged(rest, "loss") == logged(whole, "loss")
    assert rest.compiled.steps == whole.compiled.steps == 7
    positions = [json.loads((tmp_path / f"checkpoint-{at}" / "repro_state.json").read_text()) for at in (3, 6, 7)]
    for key in ("steps", "cursor", "random_step"):
        assert [each[key] for each in positions] == [3, 6, 7]
    # The resumed run has four steps. Its first step, after checkpoint-3, draws the random numbers of step 3 (counted
    # from 0).
    verified = repro_mlir.verify(tmp_path / "receipt")
    assert (verified.steps, verified.state_hash) == (4, whole.compiled.state_hash())
    assert Receipt(tmp_path / "receipt").state_after(0)["step"] == 3
    assert state_of(transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "checkpoint-7")) == state_of(model)
    # Without the file that stores the number of the step, the resumed run draws other dropout masks.
    (tmp_path / "checkpoint-3" / "repro_state.json").unlink()
    other = ReproTrainer(model=dropout_model(), args=arguments(tmp_path, **options), train_dataset=data)
    other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert logged(other, "loss") != logged(whole, "loss")


def test_a_run_with_scales_of_former_steps_is_resumed(tmp_path: Path) -> None:
    data = examples("transformers/gpt2")
    args = arguments(tmp_path, save_strategy="steps", save_steps=2)
    runs = [
        ReproTrainer(model=dropout_model(), args=args, train_dataset=data, precision="fp8_delayed") for _ in range(2)
    ]
    runs[0].train()
    runs[1].train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert runs[0].compiled.state_hash() == runs[1].compiled.state_hash()
    (tmp_path / "checkpoint-2" / "repro_state.safetensors").unlink()
    without = ReproTrainer(model=dropout_model(), args=args, train_dataset=data, precision="fp8_delayed")
    with pytest.raises(ReproError, match="the state has no precision"):
        without.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


class Classifier(torch.nn.Module):
    """A model that is not from transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        with torch.no_grad():
            # The sine avoids ties between the logits of POINTS: the elements of each point add up to 0, so evenly
            # spaced weights would give equal logits.
            self.layer.weight.copy_(torch.linspace(-3, 4, 12).sin().reshape(3, 4))
            self.layer.bias.zero_()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.layer(inputs)
        if labels is None:
            return {"logits": logits}
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Decaying(torch.optim.SGD):
    """An optimizer that halves its learning rate in each call of `step`, even if no parameter has a gradient."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        for group in self.param_groups:
            group["lr"] = group["lr"] * 0.5
        return loss


POINTS = [{"inputs": torch.linspace(-1, 1, 4).roll(row) * (1 + row % 3), "labels": row % 3} for row in range(11)]


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def test_a_receipt_is_written(tmp_path: Path) -> None:
    """Records two epochs, each with a smaller last batch. Each batch is one optimizer step, and the best model is
    loaded at the end."""

    def make(kind: Callable[..., Any], folder: str, **options: Any) -> Any:
        args = arguments(
            tmp_path / folder, max_steps=-1, num_train_epochs=2, per_device_train_batch_size=4, eval_strategy="epoch",
            save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="accuracy", max_grad_norm=0.0,
            eval_on_start=True,
        )  # fmt: skip
        model = Classifier()
        optimizer = Decaying(model.parameters(), lr=0.5)
        return kind(
            model=model, args=args, train_dataset=POINTS, eval_dataset=POINTS[:5], compute_metrics=accuracy,
            optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)), **options,
        )  # fmt: skip

    trainer = make(ReproTrainer, "run", receipt=tmp_path / "receipt", threads=1)
    model, optimizer = trainer.model, trainer.optimizer
    trainer.train()
    assert optimizer.param_groups[0]["lr"] == 0.5**7
    assert repro_mlir.verify(tmp_path / "receipt").steps == 6
    assert all(norm > 0 for norm in logged(trainer, "grad_norm")) and len(logged(trainer, "grad_norm")) == 6
    theirs = make(transformers.Trainer, "eager")
    theirs.train()
    accuracies = logged(trainer, "eval_accuracy")
    assert accuracies == logged(theirs, "eval_accuracy") and len(accuracies) == 3 and accuracies[0] < max(accuracies)
    # transformers loads the best model at the end; the receipt records it as a change after the last step.
    best = safetensors.torch.load_file(Path(trainer.state.best_model_checkpoint) / "model.safetensors")
    assert {name: tensor.numpy().tobytes() for name, tensor in best.items()} == state_of(model)
    with pytest.raises(ReproError, match="the receipt is closed"):
        trainer.train()


def test_a_failed_run_leaves_its_receipt_to_be_resumed(tmp_path: Path) -> None:
    class Failing(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    trainer = ReproTrainer(
        model=Classifier(), args=arguments(tmp_path / "run"), train_dataset=POINTS, callbacks=[Failing()],
        receipt=tmp_path / "receipt",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.compiled.steps == 1 and not (tmp_path / "receipt" / "seal.json").exists()


class LooksAtGradients(transformers.TrainerCallback):
    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None: ...


def test_activation_checkpointing_keeps_less_and_changes_no_bit(tmp_path: Path) -> None:
    """Covers dropout, whose masks are drawn again in the backward pass."""
    found = []
    for is_on in (False, True):
        model = dropout_model().train()
        args = arguments(tmp_path, activation_checkpointing=is_on, max_steps=2)
        trainer = ReproTrainer(model=model, args=args, train_dataset=examples("transformers/gpt2"))
        trainer.train()
        program = trainer.compiled.program
        found.append((state_of(model), program.data.count(b"repro.barrier") > 0))
    assert found == [(found[0][0], False), (found[0][0], True)]


class OtherLoss(ReproTrainer):
    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError


REFUSED: dict[str, dict[str, Any]] = {
    "gradient_accumulation_steps": {"gradient_accumulation_steps": 2},
    "bf16 or fp16": {"bf16": True},
    "bf16_full_eval or fp16_full_eval": {"bf16_full_eval": True},
    "torch_compile": {"torch_compile": True},
    "auto_find_batch_size": {"auto_find_batch_size": True},
    "label_smoothing_factor": {"label_smoothing_factor": 0.1},
    "an optimizer that updates within backward": {"optim": "lomo"},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_options_that_are_refused(reason: str, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match=f"^{reason} is not supported: "):
        ReproTrainer(model=dropout_model(), args=arguments(tmp_path, **REFUSED[reason]), train_dataset=[])


def test_other_refusals(tmp_path: Path) -> None:
    def make(kind: type[ReproTrainer] = ReproTrainer, **options: Any) -> ReproTrainer:
        return kind(model=Classifier(), args=arguments(tmp_path), train_dataset=POINTS, **options)

    with pytest.raises(ReproError, match=r"^an overridden compute_loss is not supported: "):
        make(OtherLoss)
    with pytest.raises(ReproError, match=r"^compute_loss_func is not supported: "):
        make(compute_loss_func=lambda outputs, labels, num_items_in_batch: outputs["loss"])
    with pytest.raises(ReproError, match=r"LooksAtGradients.on_pre_optimizer_step: .* use on_step_end"):
        make(callbacks=[LooksAtGradients()])
    with pytest.raises(ReproError, match=r"LooksAtGradients.on_pre_optimizer_step: .* use on_step_end"):
        make().add_callback(LooksAtGradients)
    with pytest.raises(ReproError, match="resumes a run from its own checkpoints"):
        make(receipt=repro_mlir.ReceiptOptions(tmp_path / "receipt", resume=True))
