"""Manual pages made from Markdown, from --help and from a script's comment print the source text
unchanged through roff.
"""

import shutil
import subprocess

import man_pages
import pytest


def lines_of(text, tmp_path):
    document = tmp_path / "a.md"
    document.write_text(text)
    return man_pages.document_page("tanada-a", "7", document, "1.0")


def test_a_document_has_its_title_as_its_name(tmp_path):
    page = lines_of("# a: files in kernels\n\ntext\n", tmp_path)
    assert page[:3] == [
        '.TH "TANADA\\-A" "7" "" "tanada 1.0" "Tanada"',
        ".SH NAME",
        "tanada\\-a \\- files in kernels",
    ]


@pytest.mark.parametrize(
    "title, about",
    [("A programs: where they run", "A programs: where they run"), ("a: all: of it", "all: of it")],
)
def test_a_title_keeps_a_subject_other_than_the_name(tmp_path, title, about):
    assert lines_of(f"# {title}\n", tmp_path)[2] == f"tanada\\-a \\- {about}"


@pytest.mark.parametrize(
    "text, lines",
    [
        ("## What `it` is", ['.SH "What it is"']),
        ("a `b-c` and **d** of *e*", ["a \\fBb\\-c\\fR and \\fBd\\fR of \\fIe\\fR"]),
        ("[here](other.md), [there](https://a.b)", ["here, there (https://a.b)"]),
        ("see [all\nthere](a.md#b). [x][y]", ["see all there. [x][y]"]),
        ("```\na[b\nc](d)\n```", [".PP", ".RS 4", ".nf", "a[b", "c](d)", ".fi", ".RE", ".PP"]),
        (".begins", ["\\&.begins"]),
        ("a \\ of \u2013", ["a \\e of \\[u2013]"]),
        ("- one", [".IP \\(bu 4", "one"]),
        ("```sh\n# a\n\nb\n```", [".PP", ".RS 4", ".nf", "# a", "", "b", ".fi", ".RE", ".PP"]),
        ("| a | b |\n| --- | --- |\n| c | d |", [".TP", "c", "b: d", ".br", ".PP"]),
    ],
)
def test_markdown_becomes_roff(tmp_path, text, lines):
    assert lines_of(f"# a\n{text}\n", tmp_path)[4:] == lines


def test_a_command_has_its_subcommands(tmp_path):
    program = tmp_path / "some where" / "tool"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ncase $1 in\nadd) echo "add a thing" ;;\n'
        f'*) printf "A tool. Usage: {program}\\n\\nSubcommands:\\n  add    add a thing\\n" ;;\nesac\n'
    )
    program.chmod(0o755)
    page = man_pages.command_page("tool", "1", program, "1.0")
    assert page[2] == "tool \\- A tool"
    assert '.SH "TOOL ADD"' in page and "A tool. Usage: tool" in page


def test_subcommands_stand_below_headings_of_their_own():
    text = (
        "A tool.\nUsage: tool [OPTIONS] SUBCOMMAND\n\nOptions:\n  word    no subcommand\n"
        "\nPositionals:\n  name    neither\n\nRunning programs:\n  top    show\n"
        "\nSubcommands:\n  rm    remove\n"
    )
    assert man_pages.subcommands(text.splitlines()) == ["top", "rm"]


def test_a_command_that_fails_makes_no_page(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit):
        man_pages.command_page("tool", "1", program, "1.0")


def test_every_document_is_taken_by_groff(tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for document in sorted(man_pages.pathlib.Path(man_pages.__file__).parents[1].glob("docs/*.md")):
        page = "\n".join(man_pages.document_page(document.stem, "7", document, "1.0"))
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stderr == "", f"{document}: {done.stderr}"
