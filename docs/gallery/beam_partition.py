"""
Regions that are equally hard
=============================

BEAM merges cells until their spectral Barron norms are balanced.
"""

import matplotlib.pyplot as plt
from skimage.data import camera

import elmfield as ef
from elmfield.show.pictures import draw_energies, draw_partition

picture = camera()[::2, ::2].astype(float)
regular = ef.Partition.regular(picture.shape, 32)
merged = ef.beam(picture, cell=16, regions=64)

figure, axes = plt.subplots(2, 2, figsize=(9, 8.5), layout="constrained")
for row, (name, partition) in zip(axes, {"regular": regular, "BEAM": merged}.items(), strict=True):
    draw_partition(partition, picture, row[0], title=f"{name}: {partition.n_regions} regions")
    draw_energies(partition, picture, row[1], title="energy of each region")
