"""The worst case: squared singular values of products of Jacobians as free-probability laws, and their upper edge."""
