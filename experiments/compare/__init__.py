"""All mechanisms on all tables: error against seconds."""
