"""One module for each family of file formats; which there are is listed in `elmfield.io.files`."""
