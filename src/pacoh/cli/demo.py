"""The main job in one command: learn a prior on Sinusoid, compare it, and draw what it changes."""

from pathlib import Path
from typing import Annotated

import typer


def demo(out: Annotated[Path, typer.Option(help="Where the figure and the model go.")] = Path("demo")) -> None:
    """Learns a prior on 20 tasks of 5 points, scores it beside other methods, and draws a test task."""
    import json

    from pacoh import api
    from pacoh.cli.output import prepare_jax, progress_bar, show_table
    from pacoh.environments.sinusoid import Sinusoid
    from pacoh.figures import compare_on_task
    from pacoh.inference.base import Budget

    prepare_jax()
    out.mkdir(parents=True, exist_ok=True)
    environment, number = Sinusoid(tests=100), 29
    draw = environment.draw(number)
    models, rows = {}, []
    for method in ("pacoh-gp-svgd", "mll-gp", "vanilla-gp", "oracle"):
        with progress_bar(method) as bar:
            model = (
                api.fit_oracle(environment, number)
                if method == "oracle"
                else api.fit(draw.train, method, budget=Budget(progress=bar("ln Q*")))
            )
        models[method] = model
        scores = model.evaluate(draw.test)
        rows.append(
            [method, *(scores[name] for name in ("rmse", "log_likelihood", "calibration_error", "coverage_90"))]
        )
    title = f"Sinusoid: 20 tasks x 5 points; {len(draw.test.context)} test tasks with 5 context points each"
    show_table(title, ["method", "RMSE", "log-likelihood", "calibration error", "90 % coverage"], rows)
    models["pacoh-gp-svgd"].save(out / "model.safetensors")
    names = ["method", "rmse", "log_likelihood", "calibration_error", "coverage_90"]
    (out / "scores.json").write_text(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1) + "\n")
    compare_on_task(models["vanilla-gp"], models["pacoh-gp-svgd"], draw.test, out / "demo.png")
    typer.echo(f"The model, the scores and the figure demo.png are in {out}/")
