"""The basis of every package: files, memory, threads, and the compilation of kernels."""
