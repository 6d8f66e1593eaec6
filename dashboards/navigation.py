"""The monitoring pages: `kappa dashboard` has Streamlit run this file.

Where Elasticsearch is and which version to show first come with the variables KAPPA_DASHBOARD_*. Each page reads afresh
every few seconds; where it cannot, it says so and goes on showing what it read last.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import streamlit as st

from dashboards import chrome, identity, incident, logs, overview, pipeline, series, versions

# The browser's tab has a picture of our own: Streamlit would fetch one of its names from a server of Google's.
TAB_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 11h3l2-8 3 10 2-5h4" fill="none" '
    'stroke="#d55e00" stroke-width="2" stroke-linejoin="round"/></svg>'
)
PAGES: dict[str, tuple[str, str, ModuleType]] = {
    "overview": ("Overview", ":material/query_stats:", overview),
    "incident": ("Incident", ":material/notification_important:", incident),
    "series": ("Series", ":material/show_chart:", series),
    "logs": ("Logs", ":material/article:", logs),
    "versions": ("Versions", ":material/compare_arrows:", versions),
    "pipeline": ("Pipeline", ":material/lan:", pipeline),
}


def run(first: str = "overview") -> None:
    """Show the page that the address names, `first` if it names none."""
    st.set_page_config(page_title="kappa", page_icon=TAB_ICON, layout="wide")
    state: dict[str, Any] = {}
    pages = {
        name: st.Page(page_function(module, state), title=title, icon=icon, url_path=name, default=name == first)
        for name, (title, icon, module) in PAGES.items()
    }
    chosen = st.navigation(list(pages.values()), position="top")
    # The controls belong to all pages, so what they say stays when another one is opened.
    who = identity.current_identity()
    if not who.may(identity.VIEWER):
        identity.show_identity(who)
        identity.show_refusal(who)
        return
    state["view"] = chrome.show_head(chosen.title, pages, who)
    chosen.run()
    settle()


@st.cache_resource(show_spinner=False)
def settle() -> None:
    """Exclude what exists after the first page from garbage collection: modules, which stay.

    Streamlit has it look at everything after each run, which takes 70 ms during which the last parts of a page wait.
    """
    gc.collect()
    gc.freeze()


def page_function(module: ModuleType, state: dict[str, Any]) -> Callable[[], None]:
    """What Streamlit calls for a page."""

    def page() -> None:
        module.page(state["view"])

    return page


if __name__ == "__main__":
    run()
