"""PDF and SVG files: letters of all scripts, and panels with very many points."""
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

from figures_test import common_style, draw, draw_runs, draw_with, run_script  # noqa: E402, F401
import fonts  # noqa: E402
import style  # noqa: E402
from environment import plt  # noqa: E402
from small_inputs import RATE, TWO_TENANTS, write_run, write_summary_csv  # noqa: E402

CHINESE = "\u8d1f\u8f7d"
SCRIPTS_OF_ASIA = [CHINESE, "\u65e5\u672c\u8a9e\u306e", "\ud55c\uad6d\uc5b4"]


def three_runs(folder):
    return [write_run(folder / str(i), requests=TWO_TENANTS) for i in range(3)]


def needs_a_font():
    if not fonts.known_families().intersection(fonts.FALLBACKS):
        pytest.skip(f"no Chinese font is installed: apt-get install {fonts.PACKAGE}")


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_chinese_japanese_and_korean_are_drawn(tmp_path, suffix):
    needs_a_font()
    done = run_script("latency_cdf", *three_runs(tmp_path), "--labels", ",".join(SCRIPTS_OF_ASIA),
                      "--out", tmp_path / f"f.{suffix}")
    assert (done.returncode, done.stderr) == (0, "")
    if suffix == "svg":
        drawn = (tmp_path / "f.svg").read_text(encoding="utf-8")
        assert all(f">{label}</text>" in drawn for label in SCRIPTS_OF_ASIA)


def test_letters_come_from_a_font_that_has_them(tmp_path):
    needs_a_font()
    figure = draw_runs("latency_cdf", *three_runs(tmp_path), "--labels", f"{CHINESE},a,b")
    files = fonts.files_by_letter(figure)
    assert files[CHINESE[0]] not in (None, files["a"])
    assert fonts.missing_letters_warning(figure) is None


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("label, advice", [
    (CHINESE, f"install one, such as the package {fonts.PACKAGE} "),
    ("\U00012000", "name one that has them in a file for --style")])
def test_letters_without_a_font_are_one_warning(tmp_path, monkeypatch, capsys, label, advice):
    monkeypatch.setattr(fonts, "FALLBACKS", [])
    monkeypatch.setitem(plt.rcParams, "font.family", ["DejaVu Sans"])
    figure = draw_runs("latency_cdf", *three_runs(tmp_path), "--labels", f"{label},a,b")
    style.write_files(figure, [tmp_path / "f.pdf", tmp_path / "f.svg"], "latency_cdf")
    said = capsys.readouterr().err
    assert said.startswith(f"latency_cdf: warning: no font of the figure has {label}, which are")
    assert advice in said
    assert said.count("\n") == 1


def test_the_fallbacks_follow_the_family_of_a_style_file(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "FALLBACKS", ["DejaVu Sans Mono", "No Such Font"])
    monkeypatch.setitem(plt.rcParams, "font.family", ["sans-serif"])
    (tmp_path / "style").write_text("font.family: serif\n")
    style.use_style(tmp_path / "style")
    assert plt.rcParams["font.family"] == ["serif", "DejaVu Sans Mono"]
    style.use_style(tmp_path / "style")
    assert plt.rcParams["font.family"] == ["serif", "DejaVu Sans Mono"]


# Ghostscript leaves letters with outlines of PostScript out if they are embedded as TrueType.
def test_fonts_with_outlines_of_postscript_make_type_3_letters(tmp_path, monkeypatch):
    true_type, open_type, collection = (tmp_path / name for name in "abc")
    true_type.write_bytes(b"\0\1\0\0" + bytes(20))
    open_type.write_bytes(b"OTTO" + bytes(20))
    collection.write_bytes(b"ttcf" + bytes(4) + b"\0\0\0\1" + b"\0\0\0\20" + b"OTTO" + bytes(8))
    for file, settings in ((true_type, {}), (open_type, {"pdf.fonttype": 3}),
                           (collection, {"pdf.fonttype": 3})):
        monkeypatch.setattr(fonts, "files_by_letter", lambda _, file=file: {"a": file, "b": None})
        assert fonts.pdf_settings(None) == settings


def test_wide_letters_count_as_two_in_the_legend():
    assert fonts.width(f"{CHINESE} a") == 6


def rasterised(figure):
    return [artist for axes in figure.axes for artist in axes.get_children()
            if artist.get_rasterized()]


def errors_csv(folder, counts):
    """A table of checks/fidelity/run with so many points of each data set."""
    rows = [f"{name},judge,ttft_mean,{point % 997 / 100},0" for name, count in counts.items()
            for point in range(count)]
    (folder / "errors.csv").write_text("\n".join(["data_set,part,metric,error_pct,failed", *rows])
                                       + "\n")
    return folder


def test_the_largest_layers_become_pictures_until_few_points_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "VECTOR_MARKERS_MAX", 10)
    folder = errors_csv(tmp_path, {"mine": 6, "other": 4})
    assert not rasterised(draw_with("prediction_errors", "read", folder))
    folder = errors_csv(tmp_path, {"mine": 7, "other": 4})
    figure = draw_with("prediction_errors", "read", folder)
    assert [style.marker_count(artist) for artist in rasterised(figure)] == [7]


def test_dense_points_of_a_pareto_figure_become_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "VECTOR_MARKERS_MAX", 10)
    rows = [{"policy.a.chunk": 1 + i, RATE: 1, "p99_ttft_ms": 10 + i, "p99_tpot_ms": 10 + i}
            for i in range(12)]
    study = write_summary_csv(tmp_path / "s", rows, ("policy.a.chunk", RATE))
    figure = draw("ttft_tpot_pareto", study, "--line", RATE)
    # A point beats the other eleven, which are one layer; the frontier is a line.
    assert [style.marker_count(artist) for artist in rasterised(figure)] == [11]


# As vector graphics, 20,000 points take 2.5 MB of SVG; a picture grows no further.
@pytest.mark.parametrize("suffix, size_max", [("svg", 100_000), ("pdf", 60_000)])
def test_the_size_of_a_dense_figure_is_bounded(tmp_path, suffix, size_max):
    folder = errors_csv(tmp_path, {"mine": 60_000})
    written = []
    for name in "ab":
        file = tmp_path / f"{name}.{suffix}"
        done = run_script("prediction_errors", folder, "--out", file)
        assert (done.returncode, done.stderr) == (0, "")
        written.append(file.read_bytes())
    assert len(written[0]) < size_max
    assert written[0] == written[1]
    assert (b">prediction error (%)</text>" if suffix == "svg" else b"/Subtype /Image") in written[0]
