"""One region's model: hidden layers, energies, and the bases they give on its samples."""
