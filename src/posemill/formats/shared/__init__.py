"""What formats share: the contract, archives, pickles, JSON, folders."""
