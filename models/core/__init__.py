"""What every other part of the models uses: names of series, batches of rows, parameters, and tables of numbers."""
