"""HTML pages: cards, charts as SVG, leader boards, and the page of a comparison."""
