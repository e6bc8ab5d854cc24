"""The command `pacoh`: each sub-command in a file of its own; jax is imported only by those that need it."""

import typer

from pacoh.cli import bench, bound, certify, data, demo, describe, models, report

app = typer.Typer(
    help="Meta-learned priors: calibrated predictions from a handful of related data sets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo.demo)
app.command("list")(models.list_)
app.command("fit")(models.fit)
app.command("evaluate")(models.evaluate)
app.command("predict")(models.predict)
app.command("info")(models.info)
app.command("describe")(describe.describe)
app.command("certify")(certify.certify)
app.command("report")(report.report)
app.add_typer(bench.app, name="bench", help="Experiments beside published numbers: list, run, report, tune.")
app.add_typer(bound.app, name="bound", help="PAC-Bayes bounds and the case studies of the theory.")
app.add_typer(data.app, name="data", help="Data of others: list, fetch, verify, path.")
