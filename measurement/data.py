"""Names of data sets as the tables have them, and the paper's numbers for BEAM."""

from paper.research import datasets

PHOTOGRAPHS = {name[:7]: name for name in datasets.photographs()}
"""The Kodak pictures, 512 × 512."""

WEATHER = {
    "ERA5 t2m, winter 2023": "era5-winter",
    "ERA5 t2m, spring 2023": "era5-spring",
    "ERA5 t2m, winter 2012": "era5-winter-2012",
    "ERA5 t850, winter 2023": "t850",
    "GFS t2m, summer 2020": "era5-summer",
    "IFS t2m, autumn 2023 (0.4°)": "era5-autumn",
}

BEAM_PRINTED = {
    "kodim20": {256: (26.0, 27.5), 512: (29.6, 32.3)},
    "cameraman": {256: (27.6, 30.9), 512: (32.3, 37.7)},
    "kodim23": {1024: (34.1, 36.9), 2048: (38.3, 41.0)},
    "era5-spring": {1024: (1.158, 1.118), 2048: (1.075, 1.040)},
    "era5-summer": {1024: (1.450, 1.408), 2048: (1.367, 1.331)},
    "era5-autumn": {1024: (1.775, 1.737), 2048: (1.698, 1.665)},
    "era5-winter": {1024: (0.398, 0.363), 2048: (0.317, 0.288)},
}
"""Regular mesh and BEAM by width: the paper's PSNR in dB, or MAE in K."""
