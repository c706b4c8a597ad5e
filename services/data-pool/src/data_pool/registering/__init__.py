"""What an agent registers: its types as JSON Schema, its definition, who may register, and where that is stored."""
