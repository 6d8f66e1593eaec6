"""A page with one chart of Vega-Lite: `streamlit run sine_page.py -- FILE`, of a file with its specification."""

import json
import sys
from pathlib import Path

import streamlit as st

st.set_page_config(layout="wide")
st.vega_lite_chart(json.loads(Path(sys.argv[1]).read_text()), width="content", theme=None)
