// Browsers load no modules from a bare file: say so, instead of nothing.
if (location.protocol === "file:") {
  document.getElementById("title").textContent = "This page needs a file server";
  document.getElementById("error-text").textContent =
    "Open it through one, for instance: python -m http.server in this folder, then http://localhost:8000/";
  document.getElementById("error").hidden = false;
}
