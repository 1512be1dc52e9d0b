/* Open MPI's shared memory between the ranks of a host: a file for each rank, "vader_segment." (Open
 * MPI 4) or "sm_segment." (Open MPI 5), then host, user, job and the rank's number on the host.
 * Open MPI removes a rank's file at MPI_Finalize, and a launcher that outlives its ranks removes
 * what they left; when all of them are killed at once, the files would stay for ever.  So the names
 * are removed as soon as all ranks of the host have mapped the files. */
#ifndef COLLECTIVES_MPI_SEGMENTS_H
#define COLLECTIVES_MPI_SEGMENTS_H

/* Finds the files of this host's n ranks among what this process has mapped.  Returns how many;
 * fewer than n: this Open MPI shares memory in another way, or this system has no /proc. */
int mpi_segments_find(int n);

/* Removes the name of this rank's file.  Only after every rank of the host has found n files. */
void mpi_segments_unlink(int local_rank);

/* Makes the removed name again, as an empty file, right before MPI_Finalize, which complains about
 * a name that is not there. */
void mpi_segments_name_again(void);

#endif
