"""Names of data sets as the benchmarks' tables have them; the data are `research.datasets`."""

from elmfield.research import datasets

PHOTOGRAPHS = {name[:7]: name for name in datasets.photographs()}

WEATHER = {
    "ERA5 t2m, winter 2023": "era5-winter",
    "ERA5 t2m, spring 2023": "era5-spring",
    "ERA5 t2m, winter 2012": "era5-winter-2012",
    "ERA5 t850, winter 2023": "t850",
    "GFS t2m, summer 2020": "era5-summer",
    "IFS t2m, autumn 2023 (0.4°)": "era5-autumn",
}
