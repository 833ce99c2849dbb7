"""What run_page.py takes for a command, and which pages it refuses."""
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
import exceptions  # noqa: E402 (beside this file)
import run_page  # noqa: E402


def page_of(text):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "page.md").write_text(text, encoding="utf-8")
        return run_page.Page(pathlib.Path(folder), "page.md")


def commands(text):
    return [command.text for command in page_of(text).commands]


class PageTest(unittest.TestCase):
    def test_lines_of_a_sh_block_are_commands_and_continued_lines_are_one(self):
        self.assertEqual(commands("```sh\ntwinserve run a \\\n    --out b\nmkdir x\n```\n"),
                         ["twinserve run a     --out b", "mkdir x"])

    def test_a_whole_command_line_in_text_or_a_table_is_a_command(self):
        self.assertEqual(commands("Then `twinserve sweep\nstudy.textproto` runs it.\n\n| `plots/a.py RUN --x b` |\n"),
                         ["twinserve sweep study.textproto", "plots/a.py RUN --x b"])

    def test_a_command_named_in_text_must_exist(self):
        self.assertEqual(commands("`twinserve run` and `twinserve trace info`\n"),
                         ["twinserve run --help", "twinserve trace info --help"])

    def test_other_code_in_text_is_no_command(self):
        page = page_of("`--out DIR`, `policy { orca {} }`, `twinserve`, `plots/`, `tools/none.py`\n")
        self.assertEqual(page.commands, [])
        self.assertEqual(run_page.missing_files(run_page.HERE, page), ["page.md:1: no file tools/none.py"])

    def test_a_command_that_would_not_be_run_fails(self):
        for text in ("    twinserve run a\n", "    ./quickstart\n", "```\n$ mkdir x\n```\n",
                     "```console\npython plots/a.py runs/a\n```\n", "```sh\ntwinserve run a\n"):
            self.assertEqual(len(page_of(text).wrong), 1, text)


class SelectionTest(unittest.TestCase):
    PAGE = "```sh\ntwinserve run a     # a run\ntwinserve run b\n```\n"

    def selected(self, not_run, smaller):
        with mock.patch.object(exceptions, "NOT_RUN", {"page.md": not_run}), \
                mock.patch.object(exceptions, "SMALLER", {"page.md": smaller}):
            selection = run_page.Selection(page_of(self.PAGE), True)
        return [command.text for command in selection.run], selection.wrong

    def test_exceptions_are_named_without_the_comment_behind_a_command(self):
        self.assertEqual(self.selected({"twinserve run a": "gpu: here"}, {"twinserve run b": "twinserve run c"}),
                         (["twinserve run c"], []))

    def test_an_exception_that_no_page_has_fails_and_so_does_an_unknown_reason(self):
        _, wrong = self.selected({"twinserve run d": "gpu", "twinserve run a": "dull"}, {})
        self.assertEqual(wrong, ["exceptions.py: page.md has no command twinserve run d",
                                 "exceptions.py: page.md: unknown reason 'dull'"])

    def test_every_page_of_the_exceptions_exists(self):
        for page in [*exceptions.NOT_RUN, *exceptions.SMALLER]:
            self.assertTrue((run_page.HERE.parent.parent / page).is_file(), page)


class ScriptTest(unittest.TestCase):
    def last_line(self, command, given):
        return run_page.script_of([run_page.Command("page.md", 1, command, "text")], given).splitlines()[-1]

    def test_placeholders_are_variables_and_options_in_brackets_are_given(self):
        given = "RUN_DIR=runs/a\nN=2\n"
        self.assertEqual(self.last_line("twinserve report RUN_DIR... [--jobs N] --set a[0]=NONE", given),
                         "twinserve report $RUN_DIR --jobs $N --set a[0]=NONE")

    def test_scripts_of_plots_are_run_by_the_environment(self):
        self.assertTrue(re.fullmatch(r"build/venv/bin/python plots/a\.py x", self.last_line("plots/a.py x", "")))


if __name__ == "__main__":
    unittest.main()
