"""Trains a small model, saves a checkpoint of all ranks every few steps into the memory pool, and
continues from the newest one.

usage: [torchrun --nproc-per-node N] pool_torch.py [pool://HOST[:PORT]/NAMESPACE/RUN]

Needs a pool (`tanada-poold` on this machine) and PyTorch. Kill it at any moment and start it again,
also with another number of ranks: it continues from a checkpoint that is whole.
"""

# %% Requirements.
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import tanada.torch

run = sys.argv[1] if len(sys.argv) > 1 else "pool://localhost/example/model"
step_count, checkpoint_period = 30, 10

# %% One process, or those of torchrun.
if "RANK" not in os.environ:
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

# %% Continue from the newest checkpoint of the run.
first_step = 0
newest = tanada.torch.latest(run)
if newest is not None:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, storage_reader=tanada.torch.PoolReader(newest))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    first_step = state["step"]

# %% Train. A checkpoint appears with the objects of all ranks or not at all; then older ones go.
torch.manual_seed(2)
inputs = torch.randn(512, 64)
targets = inputs.square().mean(1, keepdim=True)
for step in range(first_step + 1, step_count + 1):
    optimizer.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()
    if step % checkpoint_period == 0:
        weights, moments = get_state_dict(model, optimizer)
        writer = tanada.torch.PoolWriter(f"{run}/step{step}", keep=1)
        dcp.save({"model": weights, "optimizer": moments, "step": step}, storage_writer=writer)

if dist.get_rank() == 0:
    names = [url.rpartition("/")[2] for url in tanada.torch.checkpoints(run)]
    print(f"steps {first_step + 1} to {step_count}; checkpoints {', '.join(names)}")
dist.destroy_process_group()
