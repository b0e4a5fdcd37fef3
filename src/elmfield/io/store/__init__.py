"""Where bytes lie: folders, zip files, remote places, memory; files that appear whole."""
