"""The page of inkling-attend in Chromium, as a person uses it: pointer, keys, narrow and wide windows, light and dark,
paper. Its numbers are invented by print_page. Ends with 3 where Chromium or Playwright cannot be installed."""
import base64
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("INKLING_BUILD", ROOT / "build"))


def installed_or_skip(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print("Chromium or what drives it cannot be installed here, so the page is not tried", file=sys.stderr)
        sys.exit(3)
    return done.stdout.strip()


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
if not CHROMIUM:  # Debian has it as a package, Ubuntu not
    installed_or_skip(str(ROOT / "scripts/os-packages"), "chromium")
    CHROMIUM = "/usr/bin/chromium"
sys.path.insert(0, installed_or_skip(str(ROOT / "scripts/foreign-packages"), "browser"))
from axe_playwright_python.sync_playwright import Axe  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

PATIENCE = 300  # seconds, for what comes at once unless the machine is overloaded
STORY = ["The", " fox", " did", " not", " cross", " the", " riv", "er", " because", " it", " was", " too", " tired", ","]
HOSTILE = ["</script>", "<script>document.title='broken'</script>", "<img src=x onerror=alert(1)>", "<!--", "\u2028", "\u202e",
           "\"'`${1}", "@DATA@", "\n", "\r\n", "\t", "", "\0", " ", "今日", "👩\u200d💻", "x" * 300]
HEBREW = ["שלום", " עולם", " טוב", "!"]


def make_page(folder: Path, tokens: list[str], *shape: str) -> Path:
    """The page (or the picture, where the shape ends with "svg") for so many layers, heads and channels."""
    made = subprocess.run([BUILD / "bin/print_page", *shape], input=json.dumps(tokens).encode(), stdout=subprocess.PIPE, check=True)
    file = folder / f"{len(list(folder.iterdir()))}.{'svg' if shape[-1] == 'svg' else 'html'}"
    file.write_bytes(made.stdout)
    return file


def assert_rows(test: unittest.TestCase, page, table: str, rows: int) -> None:
    """A table fills when it is opened, which the browser says a little later."""
    page.locator(f"{table} tbody tr").nth(rows - 1).wait_for(state="attached")
    test.assertEqual(page.locator(f"{table} tbody tr").count(), rows)


class Numbers:
    """The numbers of a page, read without the page's own scripts."""

    def __init__(self, file: Path) -> None:
        self.data = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"), re.S)[1])

    def floats(self, layer: int, head: int, name: str) -> list[float]:
        packed = base64.b64decode(self.data["layers"][layer]["heads"][head]["full"][name])
        return list(struct.unpack(f"<{len(packed) // 4}f", packed))

    def weight(self, layer: int, head: int, i: int, j: int) -> float:
        if "full" in self.data["layers"][layer]["heads"][head]:
            return self.floats(layer, head, "weights")[i * (i + 1) // 2 + j]
        return base64.b64decode(self.data["layers"][layer]["heads"][head]["weights"])[i * (i + 1) // 2 + j] / 255


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * PATIENCE)
        cls.addClassCleanup(cls.browser.close)
        cls.story = make_page(cls.folder, STORY, "3", "4", "8", "1.2")
        cls.hostile = make_page(cls.folder, HOSTILE, "2", "2", "4", "1.1")
        cls.large = make_page(cls.folder, STORY * 8, "12", "12", "64", "5.5")
        cls.numbers = Numbers(cls.story)

    def open(self, file: Path, address: str = "", width: int = 1400, **settings):
        """Opens a page of which nothing may go wrong: no error, no message, no request beside the file itself."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **settings)
        self.addCleanup(context.close)
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        wrong: list[str] = []
        self.addCleanup(lambda: self.assertEqual(wrong, []))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: request.url.startswith(file.as_uri()) or wrong.append(request.url))
        page.goto(file.as_uri() + address)
        return page

    def assert_shows(self, page, layer: int, head: int, query: int) -> None:
        """The right tokens are lit: each as its weight says, with that weight as a number where it is not tiny."""
        tokens = page.locator(".token")
        self.assertEqual(tokens.evaluate_all("all => all.findIndex(one => one.ariaSelected === 'true')"), query)
        self.assertEqual(page.locator('.token[aria-selected="true"]').count(), 1)
        self.assertEqual(page.locator("#picture-title").inner_text(), f"Layer {layer}, head {head}")
        shown = tokens.evaluate_all("all => all.map(one => [one.style.getPropertyValue('--shade'), one.lastChild.textContent])")
        for j, (shade, number) in enumerate(shown):
            weight = self.numbers.weight(layer, head, query, j) if j <= query else 0
            self.assertAlmostEqual(float(shade), math.sqrt(weight), delta=0.001)
            self.assertEqual(bool(number), weight >= 0.015)
            if number:
                self.assertAlmostEqual(float(number), weight, delta=0.0051)
        heavy = [j for j in range(query + 1) if self.numbers.weight(layer, head, query, j) >= 0.01]
        self.assertEqual(page.locator("#lines path").count(), len(heavy))

    def test_a_click_on_a_token_lights_what_it_looks_at(self) -> None:
        page = self.open(self.story)
        self.assert_shows(page, 1, 2, len(STORY) - 1)  # as it opens
        for query in (9, 0, 4):
            page.locator(".token").nth(query).click()
            page.mouse.move(0, 0)
            self.assert_shows(page, 1, 2, query)
        self.assertIn("“·cross” looks at", page.locator("#said").inner_text())

    def test_a_click_on_a_head_shows_it(self) -> None:
        page = self.open(self.story)
        page.locator("#head-grid td").nth(2 * 4 + 3).click()
        self.assert_shows(page, 2, 3, len(STORY) - 1)
        self.assertIn("local 4", page.locator("#summary").inner_text())

    def test_pointing_at_a_token_shows_it_for_that_long(self) -> None:
        page = self.open(self.story)
        page.locator(".token").nth(3).hover()
        self.assert_shows(page, 1, 2, 3)
        page.mouse.move(0, 0)
        self.assert_shows(page, 1, 2, len(STORY) - 1)

    def test_pointing_at_a_head_shows_it_for_that_long(self) -> None:
        page = self.open(self.story)
        page.locator("#head-grid td").nth(2 * 4 + 3).hover()
        self.assert_shows(page, 2, 3, len(STORY) - 1)
        self.assertIn("local 4", page.locator("#summary").inner_text())
        self.assertEqual(page.evaluate("[view.layer, view.head]"), [1, 2])
        page.mouse.move(0, 0)
        self.assert_shows(page, 1, 2, len(STORY) - 1)

    def test_arrows_move_through_tokens(self) -> None:
        page = self.open(self.story, "#1.2.5", width=250)
        page.locator('.token[tabindex="0"]').focus()
        place = "[view.query, view.key, tokenElements.indexOf(document.activeElement)]"
        for key, query, second in (("ArrowRight", 6, None), ("ArrowLeft", 5, None), ("Home", 0, None), ("ArrowLeft", 0, None), ("End", 13, None),
                                   ("ArrowRight", 13, None), ("Shift+ArrowLeft", 13, 12), ("Shift+Home", 13, 0), ("Escape", 13, None)):
            page.keyboard.press(key)
            self.assertEqual(page.evaluate(place), [query, second, query], key)
        tops = page.locator(".token").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        self.assertEqual(tops[page.evaluate("view.query")], sorted(set(tops))[-3])
        page.keyboard.press("ArrowDown")
        self.assertEqual(tops[page.evaluate("view.query")], sorted(set(tops))[-2])
        self.assert_shows(page, 1, 2, page.evaluate("view.query"))

    def test_arrows_move_through_heads(self) -> None:
        page = self.open(self.story, "#1.2.5")
        page.locator('#head-grid td[tabindex="0"]').focus()
        for key, layer, head in (("ArrowRight", 1, 3), ("ArrowRight", 1, 3), ("ArrowDown", 2, 3), ("ArrowDown", 2, 3), ("Home", 2, 0), ("ArrowUp", 1, 0)):
            page.keyboard.press(key)
            self.assert_shows(page, layer, head, 5)
            self.assertEqual(page.evaluate("document.activeElement === headCells[view.layer][view.head]"), True)

    def test_tokens_and_heads_are_one_stop_each_for_the_tab_key_and_show_it(self) -> None:
        page = self.open(self.story)
        self.assertEqual(page.locator('.token[tabindex="0"]').count(), 1)
        self.assertEqual(page.locator('#head-grid td[tabindex="0"]').count(), 1)
        seen = []
        for _ in range(5):  # theme, switch, tokens, table, heads
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.className || document.activeElement.role || document.activeElement.tagName"))
            self.assertNotEqual(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.assertIn("token", seen)
        self.assertIn("gridcell", seen)

    def test_text_from_right_to_left_reads_and_moves_that_way(self) -> None:
        page = self.open(make_page(self.folder, HEBREW, "1", "1", "2"), "#0.0.0")
        lefts = page.locator(".token").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
        self.assertEqual(lefts, sorted(lefts, reverse=True))
        page.locator(".token").first.focus()
        page.keyboard.press("ArrowLeft")
        self.assertEqual(page.evaluate("view.query"), 1)

    def test_two_chosen_tokens_name_the_heads_that_connect_them(self) -> None:
        page = self.open(self.story)
        page.locator(".token").nth(9).click()
        page.get_by_label("who is looked at").check()
        page.locator(".token").nth(1).click()
        heads = sorted(((self.numbers.weight(layer, head, 9, 1), layer, head) for layer in range(3) for head in range(4)), reverse=True)
        first = page.locator("#pair-heads button").first
        self.assertIn(f"layer {heads[0][1]}, head {heads[0][2]}", first.inner_text())
        self.assertAlmostEqual(float(first.locator(".number").inner_text()), heads[0][0], delta=0.0051)
        first.click()
        self.assert_shows(page, heads[0][1], heads[0][2], 9)
        self.assertEqual(page.evaluate("location.hash"), f"#{heads[0][1]}.{heads[0][2]}.9.1")
        page.locator(".token").nth(12).click()  # later than the one that looks: it cannot be looked at
        self.assertEqual(page.evaluate("view.key"), 1)

    def test_the_steps_follow_from_queries_keys_and_values(self) -> None:
        page = self.open(self.story, "#1.2.9.3")
        query, key, value = (self.numbers.floats(1, 2, name) for name in ("queries", "keys", "values"))
        score = sum(query[9 * 8 + c] * key[3 * 8 + c] for c in range(8)) / math.sqrt(8)
        row = page.locator("#steps tr.key")
        numbers = [float(text.replace("−", "-").replace("<", "")) for text in row.locator(".number").all_inner_texts()]
        self.assertAlmostEqual(numbers[0], score, delta=0.006)
        self.assertAlmostEqual(numbers[1], self.numbers.weight(1, 2, 9, 3), delta=0.0051)
        first = page.locator(".worked li").first.inner_text().replace("−", "-")
        factors = re.search(r": \(?([-.\d]+)\)? × \(?([-.\d]+)", first).groups()
        self.assertAlmostEqual(float(factors[0]), query[9 * 8], delta=0.0006)
        self.assertAlmostEqual(float(factors[1]), key[3 * 8], delta=0.0006)
        total = sum(self.numbers.weight(1, 2, 9, j) * value[j * 8] for j in range(10))
        said = page.locator(".worked li").nth(2).inner_text().rstrip(".").split("= ")[1].replace("−", "-")
        self.assertAlmostEqual(float(said), total, delta=0.006)
        page.locator("#steps summary").click()
        assert_rows(self, page, "#steps details", 8)

    def test_a_head_that_is_not_in_full_names_the_command_and_the_head_that_is(self) -> None:
        page = self.open(self.story, "#0.3.9")
        self.assertIn("--head 0.3", page.locator("#steps code").inner_text())
        self.assertIn(f"--prompt '{''.join(STORY)}'", page.locator("#steps code").inner_text())
        page.get_by_role("button", name="Show layer 1, head 2").click()
        self.assert_shows(page, 1, 2, 9)
        self.assertEqual(page.locator(".worked").count(), 1)

    def test_addresses_lead_to_what_they_name_and_wrong_ones_nowhere(self) -> None:
        page = self.open(self.story, "#2.1.7.3")
        self.assertEqual(page.evaluate("[view.layer, view.head, view.query, view.key]"), [2, 1, 7, 3])
        opened = [1, 2, 13, None]
        for wrong, shown in {"#9.9.7": [1, 2, 7, None], "#2.1.99": [2, 1, 13, None], "#1.2.3.9": [1, 2, 3, None], "#x": opened,
                             "#-1.0.0": opened, "#1": opened, "#2.1.7.3.1": opened, "#%00": opened}.items():
            self.assertEqual(self.open(self.story, wrong).evaluate("[view.layer, view.head, view.query, view.key]"), shown, wrong)
        page.evaluate("location.hash = '#0.0.2'")
        page.get_by_role("heading", name="Layer 0, head 0").wait_for()
        self.assert_shows(page, 0, 0, 2)

    def test_every_picture_has_a_table(self) -> None:
        page = self.open(self.story, "#1.2.9")
        for name, rows in (("row-table", 10), ("head-table", 12), ("matrix-table", 14)):
            page.locator(f"#{name} summary").click()
            assert_rows(self, page, f"#{name}", rows)

    def test_a_text_too_long_for_a_table_of_all_weights_has_the_largest_of_each_token(self) -> None:
        page = self.open(make_page(self.folder, STORY * 15, "1", "1", "4"))
        page.locator("#matrix-table summary").click()
        assert_rows(self, page, "#matrix-table", 15 * len(STORY))
        first = page.locator("#matrix-table tbody tr").first
        self.assertEqual(first.locator("td, th").all_inner_texts(), ["The", "The 1.00"])

    def test_a_click_in_the_whole_head_chooses_both_tokens(self) -> None:
        page = self.open(self.story)
        middle = page.evaluate("[matrix.room + 4.5 * matrix.cell, matrix.room + 8.5 * matrix.cell]")
        page.locator("#matrix").click(position={"x": middle[0], "y": middle[1]})
        self.assertEqual(page.evaluate("[view.query, view.key]"), [8, 4])

    def test_colours_follow_the_system_the_button_and_paper(self) -> None:
        page = self.open(self.story, color_scheme="dark")
        background = "getComputedStyle(document.body).backgroundColor"
        dark, drawn = page.evaluate(background), page.evaluate("byId('matrix').toDataURL()")
        page.locator("#theme").click()
        light = page.evaluate(background)
        self.assertNotEqual(light, dark)
        self.assertNotEqual(page.evaluate("byId('matrix').toDataURL()"), drawn)
        page.locator("#theme").click()
        page.evaluate("window.addEventListener('beforeprint', () => (window.onPaper = [getComputedStyle(document.body).backgroundColor, byId('text').offsetWidth]))")
        self.assertTrue(page.pdf().startswith(b"%PDF"))
        self.assertEqual(page.evaluate("window.onPaper"), [light, 660])
        self.assertEqual(page.evaluate(background), dark)

    def test_no_prompt_becomes_markup_or_runs(self) -> None:
        page = self.open(self.hostile)
        self.assertEqual(page.locator(".token").count(), len(HOSTILE))
        self.assertEqual(page.locator("img, script:not([nonce]):not([type])").count(), 0)
        self.assertEqual(page.title(), "Attention of runs/invented")
        self.assertEqual(page.evaluate("tokenElements[5].textContent"), "U+202E")
        self.assertEqual(page.evaluate("data.prompt"), "".join(HOSTILE))

    def test_the_policy_stops_what_would_get_in_all_the_same(self) -> None:
        page = self.browser.new_page()
        self.addCleanup(page.close)
        page.goto(self.story.as_uri())
        page.evaluate("""() => {
            window.stopped = [];
            document.addEventListener('securitypolicyviolation', (event) => stopped.push(event.effectiveDirective));
            const intruder = document.createElement('div');
            intruder.innerHTML = '<img src="http://localhost/x" onerror="window.broken = 1">';
            document.body.append(intruder);
            fetch('http://localhost/').then(() => (window.broken = 2), () => 0);
        }""")
        wanted = {"connect-src", "img-src", "script-src-attr"}
        deadline = time.monotonic() + PATIENCE
        while set(stopped := page.evaluate("stopped")) != wanted:
            self.assertLess(time.monotonic(), deadline, stopped)
            time.sleep(0.05)
        self.assertIsNone(page.evaluate("window.broken ?? null"))

    def test_nothing_sticks_out_of_narrow_windows(self) -> None:
        for file in (self.story, self.hostile, self.large):
            for width in (320, 400, 800):
                page = self.open(file, width=width)
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)

    def test_one_token_and_one_head_are_enough(self) -> None:
        page = self.open(make_page(self.folder, ["One"], "1", "1", "1"))
        self.assertEqual(page.locator(".token .number").all_inner_texts(), ["1.00"])

    def test_the_accessibility_checker_finds_nothing(self) -> None:
        for width in (400, 1400):
            for scheme in ("light", "dark"):
                for file, address in ((self.story, "#1.2.9.3"), (self.large, "#0.0.60"), (self.hostile, "")):
                    page = self.open(file, address, width=width, color_scheme=scheme)
                    page.evaluate("document.querySelectorAll('details:not(#matrix-table)').forEach((one) => (one.open = true))")
                    page.locator("#head-table tbody tr").first.wait_for(state="attached")
                    results = Axe().run(page)
                    self.assertEqual(results.violations_count, 0, f"{width} {scheme} {address}\n{results.generate_report()}")

    def test_the_picture_is_whole_xml(self) -> None:
        page = self.open(make_page(self.folder, HOSTILE, "2", "2", "4", "0.1", "svg"))
        self.assertEqual(page.evaluate("document.querySelectorAll('parsererror').length"), 0)
        self.assertEqual(page.locator("title").first.text_content(), "Layer 0, head 1 of runs/invented")


if __name__ == "__main__":
    unittest.main()
