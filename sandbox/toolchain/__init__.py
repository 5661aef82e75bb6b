"""The real programs of the sandbox: found on this machine, else downloaded, else built.

What is downloaded is an archive of an official release whose sum stands in this repository; what is built comes from Go modules,
whose sums are in the go.sum beside each go.mod. So neither a registry nor an archive's own host can give another one. What is
made is kept in a cache that all checkouts of a user share, in a folder named by program, version and a hash of everything that
decides the result; it appears there whole or not at all. Nothing is ever installed outside the cache.

- `programs`: what is wanted, and in which version; `releases`: which of it has an archive; `tools`: how the programs are called
  here, and which versions of them fit.
- `machine`: what this machine has; `cache`: what was made before; `obtain`: makes what is missing, by `download` and `build`, and
  says what remains (`remaining`).
- `find`: all of it together.

`python -m sandbox.toolchain` finds or makes all of them and prints where each one is.
"""
