"""What is not of GPUs or clouds: files, processes, certificates, private networks, progress."""
