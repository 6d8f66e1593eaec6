"""A panel as the state of a Lens visualization, in the form that Kibana writes since 8.9 and takes in every 9."""

from __future__ import annotations

from typing import Any

from dashboards.kibana.panels import Chart, Count, Group, Measure, OverTime, Panel, kql

LAYER = "layer"
TYPES: dict[Chart, str] = {"heat map": "lnsHeatmap", "bars": "lnsXY", "line": "lnsXY", "table": "lnsDatatable"}
# Dark is strange; distinguished without red and green, in a light and in a dark theme. Lower bounds in nats.
COLOURS = (("#c7d9ec", 0.0), ("#8fb8de", 10.0), ("#f0c05a", 14.0), ("#e08214", 20.7), ("#8c2d04", 40.0))


def attributes(panel: Panel) -> dict[str, Any]:
    """The `attributes` of a saved object of the type `lens`."""
    return {
        "title": panel.title,
        "description": panel.description,
        "visualizationType": TYPES[panel.chart],
        "state": {
            "visualization": visualization(panel),
            "query": {"query": kql(panel.where), "language": "kuery"},
            "filters": [],
            "datasourceStates": {"formBased": {"layers": {LAYER: layer(panel)}}},
            "internalReferences": [],
            "adHocDataViews": {},
        },
    }


def references(view: str) -> list[dict[str, str]]:
    """The data view that the layer reads."""
    return [{"type": "index-pattern", "id": view, "name": f"indexpattern-datasource-layer-{LAYER}"}]


def layer(panel: Panel) -> dict[str, Any]:
    """What is asked: columns in the order in which the groups nest, measures last."""
    groups = {panel.group_id(i): group_column(panel, g) for i, g in enumerate(panel.groups)}
    measures = {panel.measure_id(i): measure_column(m) for i, m in enumerate(panel.measures)}
    return {"columns": groups | measures, "columnOrder": [*groups, *measures], "incompleteColumns": {}}


def group_column(panel: Panel, group: Group) -> dict[str, Any]:
    """A group as a column."""
    shared = {"label": group.label, "customLabel": True, "sourceField": group.field, "isBucketed": True}
    if isinstance(group, OverTime):
        return {
            **shared,
            "dataType": "date",
            "operationType": "date_histogram",
            "scale": "interval",
            "params": {"interval": "auto", "includeEmptyRows": True, "dropPartials": False},
        }
    return {
        **shared,
        "dataType": "string",
        "operationType": "terms",
        "scale": "ordinal",
        "params": {
            "size": group.size,
            "orderBy": {"type": "column", "columnId": panel.measure_id(0)},
            "orderDirection": "desc",
            "otherBucket": False,
            "missingBucket": False,
            "parentFormat": {"id": "terms"},
        },
    }


def measure_column(measure: Measure) -> dict[str, Any]:
    """A measure as a column."""
    shared = {"label": measure.label, "customLabel": True, "dataType": "number", "isBucketed": False, "scale": "ratio"}
    if isinstance(measure, Count):
        return {
            **shared,
            "operationType": "count",
            "sourceField": "___records___",
            "params": {"emptyAsNull": True, "format": {"id": "number", "params": {"decimals": 0}}},
        }
    return {
        **shared,
        "operationType": "max",
        "sourceField": measure.field,
        "params": {"emptyAsNull": True, "format": {"id": "number", "params": {"decimals": measure.decimals}}},
    }


def visualization(panel: Panel) -> dict[str, Any]:
    """How it is shown."""
    match panel.chart:
        case "heat map":
            return heat_map(panel)
        case "table":
            return table(panel)
        case "bars":
            return over_time(panel, "bar_stacked")
    return over_time(panel, "line")


def axis_ids(panel: Panel) -> tuple[str, str]:
    """Of a chart over time: the column of time, and the one that tells the rows or colours apart."""
    time = next(i for i, group in enumerate(panel.groups) if isinstance(group, OverTime))
    other = next(i for i, group in enumerate(panel.groups) if not isinstance(group, OverTime))
    return panel.group_id(time), panel.group_id(other)


def heat_map(panel: Panel) -> dict[str, Any]:
    """Time to the right, a row for each value, the number in each cell beside its colour."""
    time, row = axis_ids(panel)
    return {
        "shape": "heatmap",
        "layerId": LAYER,
        "layerType": "data",
        "xAccessor": time,
        "yAccessor": row,
        "valueAccessor": panel.measure_id(0),
        "legend": {"isVisible": True, "position": "right", "type": "heatmap_legend"},
        "gridConfig": {
            "type": "heatmap_grid",
            "isCellLabelVisible": True,
            "isXAxisLabelVisible": True,
            "isXAxisTitleVisible": True,
            "isYAxisLabelVisible": True,
            "isYAxisTitleVisible": True,
        },
        "palette": palette(panel),
    }


def palette(panel: Panel) -> dict[str, Any]:
    """Colours by what a score means, not by the largest score that happens to be on the page."""
    lower = [{"color": colour, "stop": least} for colour, least in COLOURS]
    ends = [least for _, least in COLOURS[1:]] + [COLOURS[-1][1] * 2]
    upper = [{"color": colour, "stop": end} for (colour, _), end in zip(COLOURS, ends, strict=True)]
    return {
        "type": "palette",
        "name": "custom",
        "accessor": panel.measure_id(0),
        "params": {
            "name": "custom",
            "continuity": "above",
            "progression": "fixed",
            "reverse": False,
            "rangeType": "number",
            "rangeMin": COLOURS[0][1],
            "rangeMax": None,
            "steps": len(COLOURS),
            "colorStops": lower,
            "stops": upper,
        },
    }


def table(panel: Panel) -> dict[str, Any]:
    """Every group and measure a column, the first measure in order."""
    ids = [panel.group_id(i) for i in range(len(panel.groups))] + [
        panel.measure_id(i) for i in range(len(panel.measures))
    ]
    return {
        "layerId": LAYER,
        "layerType": "data",
        "columns": [{"columnId": name} for name in ids],
        "sorting": {"columnId": panel.measure_id(0), "direction": "desc"},
        "paging": {"size": 10, "enabled": True},
    }


def over_time(panel: Panel, series: str) -> dict[str, Any]:
    """Bars or lines over time, a colour for each value, both axes with their titles."""
    time, colour = axis_ids(panel)
    everywhere = {"x": True, "yLeft": True, "yRight": True}
    return {
        "legend": {"isVisible": True, "position": "right", "showSingleSeries": True},
        "valueLabels": "hide",
        "fittingFunction": "None",
        "yTitle": panel.measures[0].label,
        "axisTitlesVisibilitySettings": everywhere,
        "tickLabelsVisibilitySettings": everywhere,
        "gridlinesVisibilitySettings": everywhere,
        "labelsOrientation": {"x": 0, "yLeft": 0, "yRight": 0},
        "preferredSeriesType": series,
        "layers": [
            {
                "layerId": LAYER,
                "layerType": "data",
                "seriesType": series,
                "xAccessor": time,
                "splitAccessor": colour,
                "accessors": [panel.measure_id(i) for i in range(len(panel.measures))],
            }
        ],
    }
