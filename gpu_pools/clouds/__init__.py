"""What clouds refuse, as far as it can be said before they are asked or from what they answer."""
