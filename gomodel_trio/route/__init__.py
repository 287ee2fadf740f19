"""Every routing decision as a pure function; time and chance are arguments."""
