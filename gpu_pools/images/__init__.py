"""The images that a stack places on nodes, and what their registries say of them."""
