"""One thread a process: a second one gains a tenth on these small batched products, and threads of two processes that
wait for one another (parallel tests, anything else on the machine) cost a factor of twenty."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402 - reads the variable when it is imported

torch.set_num_threads(1)
