"""What a reader does in JupyterLab, as methods: open a notebook, run it, move a control, look at the picture."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

CONTROLS = ".widget-slider, .widget-dropdown, .widget-checkbox"
COMPLAINTS = ("model not found", "error displaying widget", "loading widget", "error creating widget")

# The notebook that is open, by its name.
PAGE = """
const app = window.jupyterapp;
const page = app && [...app.shell.widgets('main')].find(widget => widget.context?.path === arguments[0]);
"""
READY = f"""{PAGE}
return page?.context.isReady && page.context.sessionContext?.session?.kernel?.status === 'idle';
"""
RUN_ALL = f"""{PAGE}
app.shell.activateById(page.id);
app.commands.execute('notebook:run-all-cells');
"""
# How many cells have not been run yet, and the errors of those that have.
PROGRESS = f"""{PAGE}
const cells = page.content.widgets.map(cell => cell.model.toJSON()).filter(cell => cell.cell_type === 'code');
const left = cells.filter(cell => cell.execution_count === null && cell.source.length > 0).length;
const errors = cells.flatMap(cell => cell.outputs).filter(output => output.output_type === 'error');
const idle = page.context.sessionContext.session.kernel.status === 'idle';
return [left + (idle ? 0 : 1), errors.map(output => `${{output.ename}}: ${{output.evalue}}`)];
"""
CLOSE = f"""{PAGE}
const done = arguments[arguments.length - 1];
page.context.model.dirty = false;
page.context.sessionContext.shutdown().then(() => {{ page.dispose(); done(); }}, done);
"""
PICTURES = """
return [...arguments[0].querySelectorAll('.jp-OutputArea-output img')].map(image => image.src).join(' ');
"""


class Explorer(NamedTuple):
    """A cell with controls and a picture."""

    cell: WebElement
    controls: list[WebElement]


class Lab:
    """One tab with JupyterLab."""

    def __init__(self, driver: Chrome, address: str, token: str, screenshots: Path):
        self.driver, self.address, self.token, self.screenshots = driver, address, token, screenshots

    def open(self, name: str) -> None:
        self.name = name
        self.driver.get(f"{self.address}/lab/tree/{name}?token={self.token}&reset")
        self.wait(lambda: self.driver.execute_script(READY, name), 90, f"{name} has no idle kernel")

    def run_all(self, seconds: float) -> None:
        """Run all cells; AssertionError at the first that fails, or when it takes longer than that."""

        def finished() -> bool:
            left, errors = self.driver.execute_script(PROGRESS, self.name)
            assert not errors, errors
            return left == 0

        self.driver.find_element(
            "css selector", ".jp-Notebook .jp-Cell"
        ).click()  # a page without focus has no current tab
        self.driver.execute_script(RUN_ALL, self.name)
        time.sleep(1)
        self.wait(finished, seconds, "cells are still running")

    def explorers(self) -> list[Explorer]:
        cells = self.driver.find_elements("css selector", ".jp-CodeCell")
        found = [Explorer(cell, self.visible(cell)) for cell in cells]
        return [explorer for explorer in found if explorer.controls]

    def visible(self, cell: WebElement) -> list[WebElement]:
        return [control for control in cell.find_elements("css selector", CONTROLS) if control.is_displayed()]

    def move(self, control: WebElement) -> str:
        """Do to a control what a mouse does; its kind and description."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'});", control)
        classes = control.get_attribute("class")
        if "widget-slider" in classes:
            self.drag(control.find_element("css selector", ".noUi-handle"))
        elif "widget-dropdown" in classes:
            select = Select(control.find_element("tag name", "select"))
            chosen = select.options.index(select.first_selected_option)
            select.select_by_index((chosen + 1) % len(select.options))
        else:
            control.find_element("css selector", "input[type=checkbox]").click()
        kind = next(kind for kind in ("slider", "dropdown", "checkbox") if f"widget-{kind}" in classes)
        return f"{kind} {control.text.splitlines()[0] if control.text else ''}".strip()

    def drag(self, handle: WebElement) -> None:
        """More than half of its way, to the side where there is room: another step even of two."""
        low, now, high = (float(handle.get_attribute(f"aria-value{name}")) for name in ("min", "now", "max"))
        width = self.driver.execute_script("return arguments[0].closest('.noUi-target').clientWidth;", handle)
        far = round(0.6 * width) * (1 if now - low < high - now else -1)
        ActionChains(self.driver, duration=50).click_and_hold(handle).move_by_offset(far, 0).release().perform()

    def picture(self, explorer: Explorer) -> str:
        return self.driver.execute_script(PICTURES, explorer.cell)

    def assert_moves_the_picture(
        self, explorer: Explorer, control: WebElement, seconds: float = 30
    ) -> tuple[str, float]:
        """The control, and the seconds from letting go to the new picture; AssertionError if there is none."""
        before = self.picture(explorer)
        assert before, "no picture under the controls"
        name = self.move(control)
        moved = time.perf_counter()
        self.wait(
            lambda: self.picture(explorer) not in ("", before), seconds, f"the picture did not change: {name}", 0.01
        )
        return name, time.perf_counter() - moved

    def assert_no_complaint(self) -> None:
        _, errors = self.driver.execute_script(PROGRESS, self.name)
        assert not errors, errors
        text = self.driver.find_element("css selector", ".jp-Notebook").text.lower()
        assert not [complaint for complaint in COMPLAINTS if complaint in text]

    def screenshot(self, name: str) -> None:
        self.driver.save_screenshot(str(self.screenshots / f"{name}.png"))

    def close(self) -> None:
        self.driver.execute_async_script(CLOSE, self.name)

    def wait(self, condition: Any, seconds: float, otherwise: str, every: float = 0.3) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.screenshot("failed")
                raise AssertionError(f"{otherwise} ({seconds:.0f} s)")
            time.sleep(every)
