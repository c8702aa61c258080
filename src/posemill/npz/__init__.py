"""`.npz` archives: `mapped` opens them, `clips` finds the clips in them, `writer` writes them."""
