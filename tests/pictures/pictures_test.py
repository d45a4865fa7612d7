"""scripts/pictures draws README's and the guide's pictures of the run that package.EmptyRoot has trained with the quick start's settings."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = pathlib.Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "package-run/runs/fables"


def words_of(picture):
    return " ".join(xml.parse(picture).getroot().itertext())


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([ROOT / "scripts/pictures", RUN, cls.folder], check=True)

    def test_every_picture_of_readme_and_guide_is_drawn(self):
        shown = {name for name in os.listdir(ROOT / "docs/images") if name.startswith("fables-")}
        self.assertEqual(shown, set(os.listdir(self.folder)))
        pages = (ROOT / "README.md").read_text() + (ROOT / "docs/guide.md").read_text()
        for name in shown:
            self.assertIn(f"images/{name}", pages)

    def test_the_pictures_show_this_run(self):
        loss = words_of(self.folder / "fables-loss.svg")
        self.assertIn("best possible", loss)
        self.assertIn("validation", loss)
        attention = words_of(self.folder / "fables-attention.svg")
        for word in ("fox", "river", "too"):
            self.assertIn(word, attention)
        watch = words_of(self.folder / "fables-watch.svg")
        self.assertIn("fables", watch)
        self.assertIn("finished", watch)


if __name__ == "__main__":
    if not RUN.is_dir():
        print(f"there is no {RUN}: package.EmptyRoot trains it, where it can", file=sys.stderr)
        sys.exit(3)
    unittest.main()
