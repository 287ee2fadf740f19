"""What operators ask a running gateway. Layer: admin, beside the gateway."""
