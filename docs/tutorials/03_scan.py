"""
A scan in world coordinates
===========================

A scanner's file has an affine from voxels to millimetres. Its field can be evaluated in these world
coordinates, and cut along any plane. Needs the extra ``io``.
"""

# %%
# A small oblique scan, made here; yours is a NIfTI file or a folder of DICOM slices.

import matplotlib.pyplot as plt
import nibabel
import numpy as np

import elmfield as ef

affine = np.array(
    [[1.9, 0.3, 0.0, -24], [-0.3, 1.9, 0.2, -14], [0.0, -0.2, 2.5, -18], [0, 0, 0, 1.0]]
)


def tissue(p):
    """A core and a shell around the origin, of millimetres p (..., 3)."""
    radius = np.linalg.norm(p * [1, 0.8, 1.2], axis=-1)
    return 100 * np.exp(-(((radius - 14) / 5) ** 2)) + 60 * np.exp(-((radius / 8) ** 2))


voxels = np.stack(np.meshgrid(*map(np.arange, (28, 24, 18)), indexing="ij"), axis=-1)
scan = tissue(voxels @ affine[:3, :3].T + affine[:3, 3])
nibabel.save(nibabel.Nifti1Image(scan, affine), "scan.nii.gz")

field = ef.fit("scan.nii.gz")
field

# %%
# In millimetres
# --------------
#
# ``field.world`` takes millimetres: x to the right, y to the front, z up for NIfTI (RAS), as the
# file has it.

place = np.array([3.0, -4.0, 5.0])
print("field:", field.world(place), "truth:", tissue(place))
print("gradient per mm:", field.world.gradient(place))
print(field.world.orientation, field.world.spacing)

# %%
# Along a plane
# -------------
#
# `reslice` takes the affine of any other grid. One sample along an axis is a plane. Here
# are a plane of the array, whose voxels are oblong, and one along the axes of the world, with
# pixels of half a millimetre.

upright = np.array([[0.5, 0, 0, -20], [0, 0.5, 0, -20], [0, 0, 1, 0], [0, 0, 0, 1.0]])
plane = field.world.reslice(upright, (80, 80, 1), outside="nan")[..., 0]

figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
axes[0].imshow(scan[:, :, 7].T, origin="lower", cmap="gray")
axes[0].set_title("slice 7 of the array")
axes[1].imshow(plane.T, origin="lower", cmap="gray", extent=(-20, 20, -20, 20))
_ = axes[1].set(title="z = 0 mm", xlabel="x, mm", ylabel="y, mm")

# %%
# As a file
# ---------
#
# `elmfield.write` makes files with the right affine: even voxels, or the grid of another scan.

ef.write(field, "even.nii.gz", spacing=2.0)
ef.write(field, "back.nii.gz", like="scan.nii.gz")

even = nibabel.load("even.nii.gz")
back = nibabel.load("back.nii.gz").get_fdata()
print(even.shape, even.header.get_zooms())
print("largest difference after writing and reading:", np.abs(back - scan).max())

# %%
# The same from a shell::
#
#     elmfield fit scan.nii.gz -o scan.elm
#     elmfield render scan.elm -o even.nii.gz --spacing 2mm
#
# DICOM series, time and coils: :doc:`/images`.
