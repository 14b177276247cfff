"""The command group: what exists, and how every failure becomes one line and an exit code."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from fairpca import __version__
from fairpca.cli._audit import audit
from fairpca.cli._datasets import datasets
from fairpca.cli._fit import fit
from fairpca.cli._messages import as_options
from fairpca.cli._reproduce import reproduce
from fairpca.cli._transform import transform
from fairpca.exceptions import InvalidInputError

BAD_INPUT, FAILURE, INTERRUPTED = 2, 1, 130


class OneLineErrors(click.Group):
    """A group whose failures are one line on standard error, never a traceback.

    Only what a user can cause is caught: a defect of the program still shows its traceback.
    """

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit with its code."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(BAD_INPUT)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            _fail(error.format_message(), BAD_INPUT)
        except InvalidInputError as error:
            _fail(as_options(str(error)), BAD_INPUT)
        except MemoryError:
            _fail("not enough memory for this table: use fewer rows or columns.", FAILURE)
        except OSError as error:
            _fail(_describe(error), FAILURE)
        sys.exit(code if isinstance(code, int) else 0)


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{reason}: {error.filename}" if error.filename else reason


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"fairpca: error: {' '.join(message.split())}", err=True)
    sys.exit(code)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fairpca", message="%(prog)s %(version)s")
def app() -> None:
    """Reduce a table to a few components that do not give protected attributes away.

    Start with "fairpca fit", then "fairpca audit": without a file they run on embedded data.
    """


app.add_command(fit)
app.add_command(transform)
app.add_command(audit)
app.add_command(reproduce)
app.add_command(datasets)
