"""Every conversation with a disk, or with another library's containers."""
