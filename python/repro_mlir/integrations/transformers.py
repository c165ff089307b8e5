# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adapts the Trainer of transformers, so that it runs compiled steps (docs/guides/huggingface.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MethodType, TracebackType
from typing import Any

import torch
import transformers
from accelerate.optimizer import AcceleratedOptimizer

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.canonical_json import LIMIT, dump, load
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import write_file
from repro_mlir.frontends.base.tried_versions import warn_if_untried
from repro_mlir.frontends.torch.objects.trainer_state import OWN_ENTRIES, load_own_entries, save_own_entries
from repro_mlir.precision.recipe import Recipe
from repro_mlir.train.options import TrainKeywords
from repro_mlir.train.trainer import Trainer
from repro_mlir.verification.receipts.options import ReceiptOptions

warn_if_untried("transformers", "accelerate")

_STATE, _OWN = "repro_state.json", "repro_state.safetensors"


class ReproTrainer(transformers.Trainer):
    """A transformers.Trainer whose steps have the same bits on every target and with any number of threads.

        trainer = ReproTrainer(model=model, args=args, train_dataset=dataset, receipt="run.receipt")
        trainer.train()

    Forward pass, backward pass, clipping and the optimizer's update form one program, a step of `repro_mlir.Trainer`.
    The loss of an evaluation and the outputs that metrics read are computed by another program. transformers handles
    data, schedules, logging, callbacks and checkpoints. A checkpoint also contains the position of the random numbers
    and the scales of former steps (Q6), so a run that resumes from it continues with the same bits. The constructor
    rejects options that a step cannot honour.
    """

    def __init__(
        self,
        *args: Any,
        target: str = "cpu",
        threads: int | None = None,
        autocast: torch.dtype | None = None,
        exact_digits: int | None = None,
        precision: Recipe | str | Mapping[str, Any] | None = None,
        attention_block: int | None = None,
        nonfinite_loss: str = "warn",
        receipt: str | Path | ReceiptOptions | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
          args, kwargs: as for transformers.Trainer. The seed of the TrainingArguments seeds the random numbers
            (dropout), and `max_grad_norm` above 0 is the `clip_norm` of `repro_mlir.Trainer`.
          target, threads, autocast, exact_digits, precision, attention_block, nonfinite_loss: as for
            `repro_mlir.Trainer`.
          receipt: as for `repro_mlir.Trainer`; covers one call of `train`, which finishes it, and cannot be resumed.
        Raises:
          ReproError: a compiled step cannot honour an option or callback, or this version of transformers is not
            supported.
        """
        self._options: TrainKeywords = dict(
            target=target, threads=threads, autocast=autocast, exact_digits=exact_digits, precision=precision,
            attention_block=attention_block, nonfinite_loss=nonfinite_loss, receipt=receipt,
        )  # fmt: skip
        self._compiled: tuple[torch.nn.Module, torch.optim.Optimizer, Trainer] | None = None
        self._gradient_norm: float | None = None
        super().__init__(*args, **kwargs)
        for reason in _refused(self):
            raise ReproError(reason)
        if isinstance(receipt, ReceiptOptions) and receipt.resume:
            raise ReproError("transformers resumes a run from its own checkpoints: begin a new receipt, without resume")
        for callback in self.callback_handler.callbacks:
            _check_callback(type(callback))

    @property
    def compiled(self) -> Trainer:
        """The `repro_mlir.Trainer` that runs the steps; it also has the state, the program and the state hash. A new
        one is created if the model or the optimizer has been replaced."""
        optimizer = self.create_optimizer()
        if isinstance(optimizer, AcceleratedOptimizer):
            optimizer = optimizer.optimizer
        if self._compiled is None or self._compiled[0] is not self.model or self._compiled[1] is not optimizer:
            if self.args.activation_checkpointing and getattr(self.model, "_require_grads_hooks", ()):
                # Removes the hooks that activation checkpointing needs; a compiled step does not use them.
                self.model.disable_input_require_grads()
            self._options["clip_norm"] = self.args.max_grad_norm if self.args.max_grad_norm > 0 else None
            self._options["seed"] = self.args.seed
            self._compiled = self.model, optimizer, Trainer(self.model, None, optimizer, **self._options)
        return self._compiled[2]

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Trains as transformers.Trainer does, then finishes the receipt. After an exception, the receipt stays
        unfinished."""
        with ExitStack() as stack:
            stack.push(self._end_receipt)
            return super().train(*args, **kwargs)

    def _end_receipt(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._compiled is not None:
            self._compiled[2].__exit__(kind, error, traceback)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        """Creates the scheduler, and replaces the optimizer's `step` by a function that does nothing, since the
        compiled step updates the parameters."""
        if isinstance(self.optimizer, AcceleratedOptimizer):
            # Must happen before the scheduler wraps `step`. Only accelerate's wrapper gets the new `step`: the capture
            # of the training step needs the `step` of the wrapped optimizer.
            self.optimizer.step = MethodType(_step_is_taken, self.optimizer)
        return super().create_scheduler(num_training_steps, optimizer)

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Runs the entire step, including the optimizer's update, and returns the loss."""
        if model is not self.model:
            raise ReproError(f"expected the model itself, got it wrapped in a {type(model).__name__}")
        model.train()
        if callable(getattr(self.optimizer, "train", None)):
            self.optimizer.train()
        batch = dict(self._prepare_inputs(inputs))
        if self.model_accepts_loss_kwargs and num_items_in_batch is not None:
            batch["num_items_in_batch"] = num_items_in_batch
        result = self.compiled.step(batch, returns=("gradient_norm",))
        self._gradient_norm = result.gradient_norm
        return torch.tensor(result.loss)

    def _clip_grad_norm(self, model: torch.nn.Module) -> float | None:
        return self._gradient_norm

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> float | None:
        return self._gradient_norm

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluates a batch. If the batch has a loss, a compiled program computes the loss and the outputs; otherwise
        the model computes the outputs."""
        labels = self.label_names
        asked = inputs.get("return_loss")
        has_loss = bool(self.can_return_loss if asked is None else asked)
        if labels:
            has_loss = all(inputs.get(name) is not None for name in labels)
        return super().prediction_step(self._evaluate_batch if has_loss else model, inputs, *args, **kwargs)

    def _evaluate_batch(self, **batch: Any) -> Any:
        return self.compiled.evaluate(batch, returns=("outputs",)).outputs

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """Copies the state of the compiled steps back to the model, then saves the model."""
        if self._compiled is not None:
            self._compiled[2].bring_back()
        super().save_model(*args, **kwargs)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        state = self.compiled.state_dict()
        save_own_entries(Path(output_dir) / _OWN, state)
        held = ("model", "optimizer", *OWN_ENTRIES)
        write_file(Path(output_dir) / _STATE, dump({key: value for key, value in state.items() if key not in held}))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)
        path = Path(checkpoint or "") / _STATE
        if checkpoint is None or not path.exists():
            # There is no checkpoint, or transformers.Trainer wrote it, without the position of the random numbers. They
            # start from the beginning.
            return
        state = load(read_regular(path, LIMIT), str(path))
        if not isinstance(state, dict):
            raise ReproError(f"{path}: expected a JSON object, got a {type(state).__name__}")
        if (own := path.with_name(_OWN)).exists():
            state |= load_own_entries(own)
        trainer = self.compiled
        # transformers has already loaded the model and the optimizer, so their state dicts are read from these objects.
        trainer.load_state_dict({**state, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})

    def add_callback(self, callback: Any) -> None:
        """Adds a callback. Raises ReproError if a compiled step cannot honour it."""
        _check_callback(callback if isinstance(callback, type) else type(callback))
        super().add_callback(callback)


def _step_is_taken(optimizer: AcceleratedOptimizer, closure: Any = None) -> None:
    """Replaces the optimizer's `step` and does nothing. The loop of transformers calls it after `training_step`, which
    has already updated the parameters."""


def _check_callback(kind: type) -> None:
    for event in ("on_pre_optimizer_step", "on_optimizer_step"):
        if getattr(kind, event, None) is not getattr(transformers.TrainerCallback, event):
            raise ReproError(
                f"{kind.__name__}.{event} is not supported: a compiled step includes backward pass and update; use "
                "on_step_end"
            )


def _refused(trainer: transformers.Trainer) -> Iterator[str]:
    """Yields the options of a trainer that a compiled step cannot honour, each with the reason."""
    args = trainer.args
    own = transformers.Trainer
    one_model = "a step is a program of one process with the whole model"
    cases: list[tuple[str, Any, str]] = [
        ("gradient_accumulation_steps", args.gradient_accumulation_steps > 1, "a step takes one batch: make it larger"),
        ("bf16 or fp16", trainer.accelerator.mixed_precision != "no", "pass autocast=torch.bfloat16 to ReproTrainer"),
        (
            "bf16_full_eval or fp16_full_eval",
            args.bf16_full_eval or args.fp16_full_eval,
            "an evaluation uses the parameters in their own type",
        ),
        ("tf32", args.tf32, "the accuracy of products is defined"),
        ("torch_compile", args.torch_compile, "the step is compiled as a whole"),
        ("use_liger_kernel", args.use_liger_kernel, "a program has its own kernels"),
        ("auto_find_batch_size", args.auto_find_batch_size, "the batch size would depend on the machine's memory"),
        ("label_smoothing_factor", args.label_smoothing_factor, "the loss is the model's: smooth it there"),
        ("compute_loss_func", trainer.compute_loss_func is not None, "the loss is the model's: compute it there"),
        ("an overridden compute_loss", type(trainer).compute_loss is not own.compute_loss, "the loss is the model's"),
        ("an optimizer that updates within backward", args.optim in ("lomo", "adalomo"), "choose another optim"),
        ("deepspeed", trainer.is_deepspeed_enabled, one_model),
        ("fsdp", trainer.is_fsdp_enabled or args.fsdp, one_model),
        ("parallelism_config", args.parallelism_config is not None, one_model),
        ("several processes or devices", max(args.world_size, args.n_gpu) > 1 or trainer.is_model_parallel, one_model),
        (f"the device {args.device}", args.device.type != "cpu", "pass use_cpu=True: target selects where a step runs"),
    ]
    yield from (f"{option} is not supported: {reason}" for option, given, reason in cases if given)
    for name in ("_clip_grad_norm", "_get_grad_norm", "_save_rng_state", "_load_rng_state"):
        if not hasattr(own, name):
            yield f"expected transformers 5.24 or compatible, got {transformers.__version__} without Trainer.{name}"
