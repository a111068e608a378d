"""The frame of the page: the question, the bars that change it, and what a tab is."""
