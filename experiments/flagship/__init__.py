"""LAMP against all other mechanisms, on all tables: error over epsilon."""
