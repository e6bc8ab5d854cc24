"""Jobs from a JSON file, one after the other, each result a JSON line; a failure is printed and the rest goes on."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import jax


def main(run: Callable[[dict], dict], lines: Callable[[dict], list[str]]) -> None:
    """`python FILE jobs.json out.jsonl`."""
    print(jax.devices(), jax.__version__, flush=True)
    with open(sys.argv[2], "a") as out:
        for job in json.loads(Path(sys.argv[1]).read_text()):
            try:
                result = run(job)
            except Exception as error:
                print(job, "failed:", repr(error)[:1500], flush=True)
                continue
            out.write(json.dumps(result) + "\n")
            out.flush()
            print(*lines(result), sep="\n", flush=True)
