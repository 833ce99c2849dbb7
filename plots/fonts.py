"""Letters that the common font lacks, such as Chinese, Japanese and Korean ones: installed fonts that
step in for it, and letters that no font has."""
import unicodedata

from environment import matplotlib, plt

font_manager = matplotlib.font_manager

# Fonts with TrueType outlines come first: PDF files embed them as they are. Those with outlines of
# PostScript (Noto, Source Han, Hiragino, PingFang) are drawn with Type 3 letters.
FALLBACKS = ["WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Microsoft YaHei",
             "SimHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS", "IPAGothic", "NanumGothic",
             "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
             "Source Han Sans SC", "Hiragino Sans GB", "PingFang SC"]
PACKAGE = "fonts-noto-cjk"  # of Debian and Ubuntu
SHOWN_MAX = 10  # letters in a warning


def known_families():
    return {font.name for font in font_manager.fontManager.ttflist}


def read_new_fonts():
    """Adds fonts that were installed after the library wrote its list of fonts."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for file in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(file)
        except (OSError, RuntimeError, ValueError):  # a bitmap font, or a damaged one
            continue


def add_fallbacks():
    """Appends the installed fonts of FALLBACKS to the family of the style."""
    if not known_families().intersection(FALLBACKS):
        read_new_fonts()
    families = plt.rcParams["font.family"]
    known = known_families()
    plt.rcParams["font.family"] = [*families, *(name for name in FALLBACKS
                                                if name in known and name not in families)]


def font_files(text):
    """The files of an artist's fonts, in the order in which they are asked for a letter."""
    for family in text.get_fontfamily():
        one = text.get_fontproperties().copy()
        one.set_family(family)
        yield font_manager.findfont(one)


def files_by_letter(figure):
    """The font file of each letter that the figure draws; None where no font has it."""
    found = {}
    for text in figure.findobj(matplotlib.text.Text):
        if not text.get_visible() or not text.get_text():
            continue
        fonts = [font_manager.get_font(file) for file in font_files(text)]
        for letter in filter(str.isprintable, text.get_text()):
            found.setdefault(letter, next((font.fname for font in fonts
                                           if font.get_char_index(ord(letter))), None))
    return found


def has_postscript_outlines(file):
    """Whether a font file, or the first font of a collection, has outlines of PostScript (CFF)."""
    with open(file, "rb") as opened:
        head = opened.read(16)
        if head[:4] == b"ttcf":
            opened.seek(int.from_bytes(head[12:16], "big"))
            head = opened.read(4)
    return head[:4] == b"OTTO"


def pdf_settings(figure):
    """Settings with which every reader of PDF shows the figure's letters: some leave letters with
    outlines of PostScript out if they are embedded as TrueType (fonttype 42)."""
    files = set(filter(None, files_by_letter(figure).values()))
    return {"pdf.fonttype": 3} if any(map(has_postscript_outlines, files)) else {}


def is_wide(letter):
    return unicodedata.east_asian_width(letter) in "WF"


def width(text):
    """Letters of a text; those of Chinese, Japanese and Korean are as wide as two."""
    return sum(2 if is_wide(letter) else 1 for letter in text)


def missing_letters_warning(figure):
    """A sentence on the letters that no font has and where to get one; None if there are none."""
    missing = [letter for letter, file in files_by_letter(figure).items() if file is None]
    if not missing:
        return None
    shown = "".join(missing[:SHOWN_MAX]) + ("..." if len(missing) > SHOWN_MAX else "")
    advice = (f"install one, such as the package {PACKAGE} (apt-get install {PACKAGE})"
              if any(is_wide(letter) and unicodedata.category(letter) != "So"
                     for letter in missing)
              else "name one that has them in a file for --style (font.family: sans-serif, NAME)")
    return f"no font of the figure has {shown}, which are drawn as boxes; {advice}"
