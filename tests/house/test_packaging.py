"""The recipes of packages name what is installed, and options that exist. `make test-packages`
builds and installs the packages.
"""

import ast
import fnmatch
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging/debian"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def packages():
    return re.findall(r"^Package: (\S+)$", (RECIPE / "control").read_text(), re.M)


def owners(path, folder=RECIPE):
    """The packages whose patterns have a file of debian/tmp."""
    found = []
    for listed in sorted(folder.glob("*.install")):
        for pattern in listed.read_text().split():
            # A name of a folder stands for all that is in it.
            if fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern + "/*"):
                found.append(listed.stem)
                break
    return found


def debian_path(path):
    """Where rules have a file that CMake installs below /usr; None: they remove it."""
    if path.startswith("usr/share/doc/") or path.endswith("installed-files.txt"):
        return None
    path = re.sub(r"^usr/lib/systemd/", "lib/systemd/", path)
    if re.match(r"usr/(bin|share/man/man1)/osh", path):
        path = re.sub("/(oshcxx|oshCC)", "/oshcc", path).replace("oshmem_info", "oshrun")
        path = path.replace("/osh", "/tanada-osh")
    path = path.replace("usr/share/zsh/site-functions/", "usr/share/zsh/vendor-completions/")
    return re.sub(r"^usr/lib/(?=(lib\w|tanada/|pkgconfig/|cmake/))", f"{LIBRARIES}/", path)


@pytest.fixture(scope="module")
def installed(build_folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("packaging")
    done = subprocess.run(
        ["cmake", "--install", build_folder, "--prefix", "/usr"],
        env={"PATH": "/usr/bin:/bin", "DESTDIR": str(root)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    paths = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    return [path.relative_to(root).as_posix() for path in paths]


def test_every_installed_file_is_in_one_package(installed):
    wrong = {}
    for path in filter(None, map(debian_path, installed)):
        if len(owners(path)) != 1:
            wrong[path] = owners(path)
    assert wrong == {}


def test_a_file_without_a_package_is_noticed(tmp_path):
    """Planted: a plugin and a command that no recipe names."""
    assert owners(f"{LIBRARIES}/tanada/libtanada_store_new.so") == []
    assert owners("usr/bin/tanada-new") == []
    (tmp_path / "a.install").write_text("usr/bin/tanada\n")
    (tmp_path / "b.install").write_text("usr/bin\n")
    assert owners("usr/bin/tanada", tmp_path) == ["a", "b"]


def test_every_list_of_files_has_its_package():
    assert {path.stem for path in RECIPE.glob("*.install")} <= set(packages())
    assert set(packages()) - {path.stem for path in RECIPE.glob("*.install")} == {"python3-tanada"}


def test_the_page_lists_every_package():
    text = (ROOT / "docs/install.md").read_text()
    assert [name for name in packages() if f"`{name}`" not in text] == []


def test_recipes_have_the_version_of_the_library():
    version = re.search(
        r'VERSION_STRING "([\d.]+)"', (ROOT / "include/tanada/version.h").read_text()
    )[1]
    assert (RECIPE / "changelog").read_text().startswith(f"tanada ({version}-")
    assert f"project(tanada VERSION {version} " in (ROOT / "CMakeLists.txt").read_text()


def test_the_recipe_of_spack_gives_options_that_exist():
    recipe = ROOT / "packaging/spack/packages/tanada/package.py"
    ast.parse(recipe.read_text())
    options = (ROOT / "CMakeLists.txt").read_text()
    named = re.findall(r'define\("(TANADA_\w+)"', recipe.read_text())
    assert named and all(re.search(rf"\({name} ", options) for name in named)


def test_images_install_packages_that_exist():
    for name in ("Containerfile", "tanada.def"):
        text = (ROOT / "packaging/oci" / name).read_text()
        named = set(re.findall(r"\b(?:python3-tanada|(?:lib)?tanada(?:-[a-z0-9]+)+)\b", text))
        assert {"tanada-poold", "tanada-tools", "python3-tanada"} <= named <= set(packages())
